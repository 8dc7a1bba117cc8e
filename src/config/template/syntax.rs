//! Tokens to the tree of a template.
//!
//! Unknown fields, functions, variables and wrong numbers of arguments are refused here, in every branch,
//! whether or not it would ever be rendered.

use super::functions::{Field, Function};
use super::lex::Token;
use crate::config::problem::{nearest, quoted};

/// Most blocks and parentheses inside each other; bounds the recursion of parser and renderer.
const DEPTH_MAX: usize = 32;

/// A whole template and how many variables it declares.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Program {
    pub(super) nodes: Vec<Node>,
    pub(super) variables: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Text(String),
    /// Prints its value, unless the pipeline only sets a variable.
    Action(Pipeline),
    If {
        condition: Pipeline,
        yes: Vec<Node>,
        no: Vec<Node>,
    },
    /// As `If`, and the dot is the value inside `yes`.
    With {
        value: Pipeline,
        yes: Vec<Node>,
        no: Vec<Node>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pipeline {
    /// The slot of the variable that takes the value.
    pub(super) variable: Option<usize>,
    pub(super) value: Expr,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expr {
    Text(String),
    Bool(bool),
    Int(i64),
    Float(f64),
    /// `.`
    Dot,
    /// `$`
    Root,
    Variable(usize),
    /// A field of what must be the root data.
    Field(Box<Expr>, Field),
    Call(Function, Vec<Expr>),
}

/// Parses the tokens of a template.
pub(super) fn parse(tokens: Vec<Token>) -> Result<Program, String> {
    let mut parser = Parser { tokens: tokens.into_iter().peekable(), scope: Vec::new(), variables: 0 };
    let (nodes, stop) = parser.block(0)?;
    match stop {
        Stop::Template => Ok(Program { nodes, variables: parser.variables }),
        Stop::End => Err("syntax error: {{ end }} without a block".to_owned()),
        Stop::Else => Err("syntax error: {{ else }} without a block".to_owned()),
    }
}

/// What ended a list of nodes. After `Else` the rest of its action is still to be read.
enum Stop {
    Template,
    End,
    Else,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    If,
    With,
}

struct Parser {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
    /// Variables in sight, innermost last, with their slots.
    scope: Vec<(String, usize)>,
    variables: usize,
}

impl Parser {
    fn block(&mut self, depth: usize) -> Result<(Vec<Node>, Stop), String> {
        check_depth(depth)?;
        let mut nodes = Vec::new();
        loop {
            match self.tokens.next() {
                None => return Ok((nodes, Stop::Template)),
                Some(Token::Text(text)) => nodes.push(Node::Text(text)),
                Some(Token::Open) => match self.keyword().as_str() {
                    "end" => {
                        self.tokens.next();
                        self.close()?;
                        return Ok((nodes, Stop::End));
                    }
                    "else" => {
                        self.tokens.next();
                        return Ok((nodes, Stop::Else));
                    }
                    "if" => nodes.push(self.branch(Block::If, depth)?),
                    "with" => nodes.push(self.branch(Block::With, depth)?),
                    word @ ("range" | "define" | "block" | "template" | "break" | "continue") => {
                        return Err(format!("action {{{{ {word} }}}} is refused here"));
                    }
                    _ => {
                        let pipeline = self.pipeline(depth)?;
                        self.close()?;
                        nodes.push(Node::Action(pipeline));
                    }
                },
                Some(other) => return Err(unexpected(&other)),
            }
        }
    }

    /// The word at the start of an action; empty when it starts with something else.
    fn keyword(&mut self) -> String {
        match self.tokens.peek() {
            Some(Token::Word(word)) => word.clone(),
            _ => String::new(),
        }
    }

    /// `if` or `with`, from its word to its `end`.
    fn branch(&mut self, block: Block, depth: usize) -> Result<Node, String> {
        check_depth(depth + 1)?;
        self.tokens.next();
        let scope = self.scope.len();
        let condition = self.pipeline(depth)?;
        self.close()?;
        let inner = self.scope.len();
        let (yes, stop) = self.block(depth + 1)?;
        self.scope.truncate(inner);
        let no = match stop {
            Stop::End => Vec::new(),
            Stop::Template => return Err(unclosed(block)),
            Stop::Else => self.otherwise(block, depth + 1)?,
        };
        self.scope.truncate(scope);
        Ok(match block {
            Block::If => Node::If { condition, yes, no },
            Block::With => Node::With { value: condition, yes, no },
        })
    }

    /// What follows `{{ else`: `if …`, `with …` or nothing.
    fn otherwise(&mut self, block: Block, depth: usize) -> Result<Vec<Node>, String> {
        let chained = match (block, self.tokens.peek()) {
            (Block::If, Some(Token::Word(word))) => word == "if",
            (Block::With, Some(Token::Word(word))) => word == "with",
            _ => false,
        };
        if chained {
            return Ok(vec![self.branch(block, depth)?]);
        }
        self.close()?;
        match self.block(depth)? {
            (no, Stop::End) => Ok(no),
            (_, Stop::Else) => Err("syntax error: a second {{ else }} in one block".to_owned()),
            (_, Stop::Template) => Err(unclosed(block)),
        }
    }

    fn close(&mut self) -> Result<(), String> {
        match self.tokens.next() {
            Some(Token::Close) => Ok(()),
            Some(other) => Err(unexpected(&other)),
            None => Err("syntax error: {{ is not closed".to_owned()),
        }
    }

    /// A pipeline that may set a variable first.
    fn pipeline(&mut self, depth: usize) -> Result<Pipeline, String> {
        let Some(Token::Variable(name)) = self.tokens.peek().cloned() else {
            return Ok(Pipeline { variable: None, value: self.piped(depth)? });
        };
        self.tokens.next();
        match self.tokens.peek() {
            Some(Token::Sign(":=")) if !name.is_empty() => {
                self.tokens.next();
                let value = self.piped(depth)?;
                let slot = self.variables;
                self.variables += 1;
                self.scope.push((name, slot));
                Ok(Pipeline { variable: Some(slot), value })
            }
            Some(Token::Sign("=")) if !name.is_empty() => {
                self.tokens.next();
                let slot = self.slot(&name)?;
                Ok(Pipeline { variable: Some(slot), value: self.piped(depth)? })
            }
            _ => {
                let start = self.variable(&name)?;
                let first = self.fields_after(start)?;
                Ok(Pipeline { variable: None, value: self.piped_from(first, depth)? })
            }
        }
    }

    fn piped(&mut self, depth: usize) -> Result<Expr, String> {
        let first = self.command(None, depth)?;
        self.stages(first, depth)
    }

    fn piped_from(&mut self, first: Expr, depth: usize) -> Result<Expr, String> {
        if self.at_operand() {
            return Err("syntax error: only functions take arguments".to_owned());
        }
        self.stages(first, depth)
    }

    /// The stages after `|`: each takes the value before it as its last argument.
    fn stages(&mut self, first: Expr, depth: usize) -> Result<Expr, String> {
        let mut value = first;
        let mut nesting = depth;
        while let Some(Token::Sign("|")) = self.tokens.peek() {
            self.tokens.next();
            // Each stage nests the value one call deeper for the renderer.
            nesting += 1;
            check_depth(nesting)?;
            value = self.command(Some(value), depth)?;
        }
        Ok(value)
    }

    /// A function with its arguments, or a single operand.
    fn command(&mut self, piped: Option<Expr>, depth: usize) -> Result<Expr, String> {
        let function = match self.tokens.peek() {
            Some(Token::Word(word)) => function_named(word)?,
            _ => None,
        };
        let Some(function) = function else {
            if piped.is_some() {
                return Err("syntax error: only a function can stand after |".to_owned());
            }
            let operand = self.operand(depth)?;
            return if self.at_operand() {
                Err("syntax error: only functions take arguments".to_owned())
            } else {
                Ok(operand)
            };
        };
        self.tokens.next();
        let mut arguments = Vec::new();
        while self.at_operand() {
            arguments.push(self.operand(depth)?);
        }
        arguments.extend(piped);
        function.check_arguments(arguments.len())?;
        Ok(Expr::Call(function, arguments))
    }

    fn at_operand(&mut self) -> bool {
        match self.tokens.peek() {
            None | Some(Token::Close | Token::Open | Token::Text(_)) => false,
            Some(Token::Sign(sign)) => *sign == "(",
            Some(Token::Word(_) | Token::Field { .. } | Token::Variable(_) | Token::Str(_) | Token::Number(_)) => true,
        }
    }

    fn operand(&mut self, depth: usize) -> Result<Expr, String> {
        let start = match self.tokens.next() {
            Some(Token::Str(text)) => return Ok(Expr::Text(text)),
            Some(Token::Number(text)) => return number(&text),
            Some(Token::Word(word)) => match word.as_str() {
                "true" => return Ok(Expr::Bool(true)),
                "false" => return Ok(Expr::Bool(false)),
                _ => match function_named(&word)? {
                    // As in Go: a function among arguments is called without any.
                    Some(function) => {
                        function.check_arguments(0)?;
                        return Ok(Expr::Call(function, Vec::new()));
                    }
                    None => return Err(format!("unexpected {word:?}")),
                },
            },
            Some(Token::Field { name, .. }) if name.is_empty() => Expr::Dot,
            Some(Token::Field { name, .. }) => Expr::Field(Box::new(Expr::Dot), field_named(&name)?),
            Some(Token::Variable(name)) => self.variable(&name)?,
            Some(Token::Sign("(")) => {
                check_depth(depth + 1)?;
                let pipeline = self.pipeline(depth + 1)?;
                if pipeline.variable.is_some() {
                    return Err("syntax error: a variable cannot be set inside parentheses".to_owned());
                }
                match self.tokens.next() {
                    Some(Token::Sign(")")) => pipeline.value,
                    _ => return Err("syntax error: a parenthesis is not closed".to_owned()),
                }
            }
            Some(other) => return Err(unexpected(&other)),
            None => return Err("syntax error: {{ is not closed".to_owned()),
        };
        self.fields_after(start)
    }

    /// `$.Path`, `$x.Name`, `(…).Key`: a field written right behind its operand.
    fn fields_after(&mut self, start: Expr) -> Result<Expr, String> {
        let Some(Token::Field { name, glued: true }) = self.tokens.peek() else { return Ok(start) };
        if matches!(start, Expr::Field(..)) {
            return Err(format!("unknown field .{name}: fields have no fields of their own"));
        }
        let field = field_named(name)?;
        self.tokens.next();
        self.fields_after(Expr::Field(Box::new(start), field))
    }

    fn variable(&self, name: &str) -> Result<Expr, String> {
        if name.is_empty() { Ok(Expr::Root) } else { Ok(Expr::Variable(self.slot(name)?)) }
    }

    fn slot(&self, name: &str) -> Result<usize, String> {
        let found = self.scope.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, slot)| *slot).ok_or_else(|| format!("unknown variable ${name}"))
    }
}

fn check_depth(depth: usize) -> Result<(), String> {
    if depth > DEPTH_MAX { Err(format!("syntax error: nested more than {DEPTH_MAX} levels deep")) } else { Ok(()) }
}

fn unclosed(block: Block) -> String {
    let word = match block {
        Block::If => "if",
        Block::With => "with",
    };
    format!("syntax error: {{{{ {word} }}}} has no {{{{ end }}}}")
}

/// `None` for words that are no functions but values.
fn function_named(word: &str) -> Result<Option<Function>, String> {
    const REFUSED: [&str; 11] =
        ["call", "html", "index", "js", "len", "nil", "print", "printf", "println", "slice", "urlquery"];
    const KEYWORDS: [&str; 10] =
        ["if", "else", "end", "with", "range", "define", "block", "template", "break", "continue"];
    if matches!(word, "true" | "false") {
        return Ok(None);
    }
    if let Some(function) = Function::named(word) {
        return Ok(Some(function));
    }
    if KEYWORDS.contains(&word) {
        return Err(format!("syntax error: unexpected {word:?}"));
    }
    if REFUSED.contains(&word) {
        return Err(format!("function {word:?} is refused here"));
    }
    Err(with_suggestion(format!("unknown function {}", quoted(word)), nearest(word, &Function::names())))
}

fn field_named(name: &str) -> Result<Field, String> {
    let unknown = || {
        let suggestion = nearest(name, &Field::NAMES).map(|known| format!(".{known}"));
        with_suggestion(format!("unknown field .{name}"), suggestion.as_deref())
    };
    Field::named(name).ok_or_else(unknown)
}

fn with_suggestion(message: String, suggestion: Option<&str>) -> String {
    match suggestion {
        Some(known) => format!("{message}; did you mean {known}?"),
        None => message,
    }
}

fn number(text: &str) -> Result<Expr, String> {
    let bad = || format!("syntax error: {} is not a number", quoted(text));
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let decimal = digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
    // A leading zero means octal in Go and nothing of the kind to most readers.
    let octal = digits.strip_prefix('0').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    if !decimal || octal {
        return Err(bad());
    }
    if text.contains(['.', 'e', 'E']) {
        let value: f64 = text.parse().map_err(|_| bad())?;
        return if value.is_finite() { Ok(Expr::Float(value)) } else { Err(bad()) };
    }
    text.parse().map(Expr::Int).map_err(|_| bad())
}

fn unexpected(token: &Token) -> String {
    let shown = match token {
        Token::Text(text) | Token::Word(text) | Token::Str(text) | Token::Number(text) => quoted(text),
        Token::Open => "{{".to_owned(),
        Token::Close => "}}".to_owned(),
        Token::Field { name, .. } => format!(".{name}"),
        Token::Variable(name) => format!("${name}"),
        Token::Sign(sign) => format!("{sign:?}"),
    };
    format!("syntax error: unexpected {shown}")
}
