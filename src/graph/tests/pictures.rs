//! The graph for people.

use super::{changing, small};
use crate::config::model::RepoConfig;
use crate::graph::mermaid::{waves, waves_mermaid, whole};
use crate::graph::{dot::dot, ordering, resolve, svg, text::text};

#[test]
fn dot_shows_kinds_of_nodes_edges_and_waves() {
    let mut graph = small::graph("a <- b, a <= c, m/x < b, \"odd\"\\ <- c, away <- c, gone <- c");
    graph.stacks.iter_mut().filter(|stack| stack.key == "away").for_each(|stack| stack.external = true);
    graph.stacks.retain(|stack| stack.key != "gone");
    let resolution = resolve(&graph, &RepoConfig::default(), &changing(&["b/x.tf"]));
    insta::assert_snapshot!(dot(&graph, Some(&resolution)));
}

#[test]
fn text_lists_nodes_with_their_edges() {
    let mut graph = small::graph("a <- b, a <= c, m/x < b, away <- c");
    graph.stacks.iter_mut().filter(|stack| stack.key == "away").for_each(|stack| stack.external = true);
    insta::assert_snapshot!(text(&graph), @r"
    4 stacks, 1 modules, 4 edges
    a
    away (external)
    b
      depends_on a
      uses_module acme/infra//m/x
    c
      depends_on away
      reads_state a (inferred)
    acme/infra//m/x (local module)
    ");
}

#[test]
fn mermaid_shows_waves_and_escapes_names() {
    let graph = small::graph("a <- b\"]x, a <- c");
    let resolution = resolve(&graph, &RepoConfig::default(), &changing(&["a/x.tf"]));
    insta::assert_snapshot!(waves_mermaid(&resolution, &ordering(&graph)).unwrap(), @r#"
    flowchart LR
      subgraph wave0["wave 0"]
        s0["a"]
      end
      subgraph wave1["wave 1"]
        s1["b#34;#93;x"]
        s2["c"]
      end
      s0 --> s1
      s0 --> s2
    "#);
}

#[test]
fn stacks_of_a_cycle_have_their_names_in_a_chart_without_waves() {
    let graph = small::graph("a <- b, b <- a");
    let resolution = resolve(&graph, &RepoConfig::default(), &changing(&["a/x.tf"]));
    insta::assert_snapshot!(waves(&resolution, &ordering(&graph)), @r#"
    flowchart LR
      s0["a"]
      s1["b"]
      s1 --> s0
      s0 --> s1
    "#);
}

#[test]
fn a_name_is_one_line_of_text_whatever_it_holds() {
    let mut graph = small::graph("a <- b");
    graph.stacks[0].key = "a\n::error::\u{1b}[2J".to_owned();
    assert!(text(&graph).contains("\na\\n::error::\\u{1b}[2J\n"), "{}", text(&graph));
}

#[test]
fn a_chart_that_nobody_could_read_is_not_drawn() {
    let many: Vec<String> = (0..41).map(|number| format!("s/{number}")).collect();
    let graph = small::graph(&many.join(","));
    let paths: Vec<&str> = many.iter().map(String::as_str).collect();
    let resolution = resolve(&graph, &RepoConfig::default(), &changing(&paths));
    assert_eq!((resolution.affected.len(), waves_mermaid(&resolution, &ordering(&graph))), (41, None));
}

#[test]
fn the_whole_graph_as_mermaid_shows_every_kind_of_node_and_edge() {
    let mut graph = small::graph("a <- b, a <= c, m/x < b, m/x < m/y, away <- c, gone <- c");
    graph.stacks.iter_mut().filter(|stack| stack.key == "away").for_each(|stack| stack.external = true);
    graph.stacks.retain(|stack| stack.key != "gone");
    insta::assert_snapshot!(whole(&graph), @r#"
    flowchart LR
      s0["a"]
      s1["away"]:::external
      s2["b"]
      s3["c"]
      m0(["m/x"])
      m1(["m/y"])
      x6["gone"]:::missing
      m0 --- m1
      s0 --> s2
      m0 --- s2
      s1 --> s3
      x6 --> s3
      s0 -.-> s3
      classDef external stroke-dasharray:6 4
      classDef missing stroke-dasharray:2 2
    "#);
}

#[test]
fn svg_shows_every_node_once_and_no_name_ends_its_element() {
    let mut graph = small::graph("a <- <b>&\"x, a <= c, m/x < a, away <- c, gone <- c");
    graph.stacks.iter_mut().filter(|stack| stack.key == "away").for_each(|stack| stack.external = true);
    graph.stacks.retain(|stack| stack.key != "gone");
    let drawn = svg::whole(&graph);
    for (class, times) in [
        ("class=\"stack\"", 3),
        ("class=\"stack external\"", 1),
        ("class=\"module\"", 1),
        ("class=\"missing\"", 1),
        ("class=\"depends_on\"", 3),
        ("class=\"reads_state\"", 1),
        ("class=\"uses_module\"", 1),
    ] {
        assert_eq!(drawn.matches(class).count(), times, "{class}: {drawn}");
    }
    assert!(drawn.contains("<title>&lt;b&gt;&amp;&quot;x</title>"), "{drawn}");
    assert!(!drawn.contains("<b>"), "{drawn}");
}

#[test]
fn svg_of_a_change_shows_the_affected_stacks_with_wave_and_reasons() {
    let graph = small::graph("a <- b, b <- c, d");
    let resolution = resolve(&graph, &RepoConfig::default(), &changing(&["b/x.tf"]));
    let drawn = svg::waves(&resolution, &ordering(&graph));
    assert!(
        drawn.contains("<title>b: wave 0, changed</title>") && drawn.contains("<title>c: wave 1, dependent</title>")
    );
    assert_eq!((drawn.matches("<g>").count(), drawn.matches("<path ").count()), (2, 1), "{drawn}");
}
