//! The server's settings: environment variables, every problem reported at once (spec 22 §1).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use secrecy::SecretString;

use crate::clock::{HOUR_MS, MINUTE_MS, Millis, SECOND_MS};
use crate::github::budget::Allowance;
use crate::github::workflow_pin::WorkflowPin;
use crate::store::Retention;

/// Everything `stackorder serve` needs to know.
#[derive(Debug, Clone)]
pub struct Settings {
    pub base_url: String,
    pub database_url: String,
    pub database_connections: u32,
    pub listen: SocketAddr,
    pub app: AppSettings,
    pub github_api_url: String,
    pub github_web_url: String,
    pub oidc_issuer: String,
    pub oidc_jwks_url: String,
    pub oidc_audience: String,
    pub required_workflow: Option<WorkflowPin>,
    /// What each installation may write to GitHub.
    pub writes: Allowance,
    pub workers: u32,
    pub retention: Retention,
    /// Anyone who reaches the address may read every page; for a laptop or a network you trust.
    pub open_pages: bool,
    pub log_level: String,
    pub log_json: bool,
}

/// The GitHub App that the server is.
#[derive(Debug, Clone)]
pub struct AppSettings {
    pub id: u64,
    pub private_key_pem: SecretString,
    pub webhook_secret: SecretString,
}

/// One variable that is missing or wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsProblem {
    pub variable: &'static str,
    pub reason: String,
}

impl std::fmt::Display for SettingsProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.variable, self.reason)
    }
}

impl Settings {
    /// Reads the variables; blank ones count as not set.
    pub fn from_environment(variables: &BTreeMap<String, String>) -> Result<Self, Vec<SettingsProblem>> {
        let mut reader = Reader { variables, problems: Vec::new() };
        let base_url = reader.url("STACKORDER_BASE_URL", None);
        let database_url = reader.required("DATABASE_URL");
        if !["postgres://", "postgresql://", "sqlite:"].iter().any(|scheme| database_url.starts_with(scheme))
            && !database_url.is_empty()
        {
            reader.problem("DATABASE_URL", "must start with postgres:// or sqlite://");
        }
        let workers = reader.positive("STACKORDER_WORKERS", 4);
        let oidc_issuer = reader.url("GITHUB_OIDC_ISSUER", Some("https://token.actions.githubusercontent.com"));
        let jwks_default = format!("{oidc_issuer}/.well-known/jwks");
        let settings = Self {
            database_connections: reader.positive("STACKORDER_DATABASE_CONNECTIONS", 3 * workers + 8),
            listen: reader.listen(),
            app: AppSettings {
                id: reader.app_id(),
                private_key_pem: reader.private_key(),
                webhook_secret: SecretString::from(reader.required("GITHUB_WEBHOOK_SECRET")),
            },
            github_api_url: reader.url("GITHUB_API_URL", Some("https://api.github.com")),
            github_web_url: reader.url("GITHUB_WEB_URL", Some("https://github.com")),
            oidc_jwks_url: reader.url("GITHUB_OIDC_JWKS_URL", Some(&jwks_default)),
            oidc_audience: reader.optional("STACKORDER_OIDC_AUDIENCE").unwrap_or_else(|| base_url.clone()),
            required_workflow: reader.workflow_pin(),
            writes: Allowance {
                per_minute: reader.allowance("GITHUB_WRITES_PER_MINUTE", Allowance::default().per_minute),
                per_hour: reader.allowance("GITHUB_WRITES_PER_HOUR", Allowance::default().per_hour),
            },
            retention: Retention {
                plan_text_ms: reader.duration("STACKORDER_PLAN_TEXT_RETENTION", 720 * HOUR_MS),
                events_ms: reader.duration("STACKORDER_EVENT_RETENTION", 168 * HOUR_MS),
                drift_ms: reader.duration("STACKORDER_DRIFT_RETENTION", 2160 * HOUR_MS),
            },
            open_pages: reader.one_of("STACKORDER_OPEN_PAGES", &["false", "true"]) == "true",
            log_level: reader.one_of("STACKORDER_LOG_LEVEL", &["info", "debug", "warn", "error"]),
            log_json: reader.one_of("STACKORDER_LOG_FORMAT", &["json", "text"]) == "json",
            base_url,
            database_url,
            oidc_issuer,
            workers,
        };
        if reader.problems.is_empty() { Ok(settings) } else { Err(reader.problems) }
    }
}

struct Reader<'v> {
    variables: &'v BTreeMap<String, String>,
    problems: Vec<SettingsProblem>,
}

impl Reader<'_> {
    fn problem(&mut self, variable: &'static str, reason: impl Into<String>) {
        self.problems.push(SettingsProblem { variable, reason: reason.into() });
    }

    fn optional(&self, variable: &'static str) -> Option<String> {
        let value = self.variables.get(variable)?.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    fn required(&mut self, variable: &'static str) -> String {
        self.optional(variable).unwrap_or_else(|| {
            self.problem(variable, "is required");
            String::new()
        })
    }

    /// Absolute http or https, no query or fragment; trailing slashes are dropped.
    fn url(&mut self, variable: &'static str, default: Option<&str>) -> String {
        let value = match (self.optional(variable), default) {
            (Some(value), _) => value,
            (None, Some(default)) => return default.to_owned(),
            (None, None) => {
                self.problem(variable, "is required");
                return String::new();
            }
        };
        let web = value.starts_with("http://") || value.starts_with("https://");
        if !web || value.contains(['?', '#', ' ']) {
            self.problem(variable, format!("{value:?} is no absolute http or https URL without query or fragment"));
        }
        value.trim_end_matches('/').to_owned()
    }

    fn positive(&mut self, variable: &'static str, default: u32) -> u32 {
        let Some(value) = self.optional(variable) else { return default };
        match value.parse() {
            Ok(number) if number > 0 => number,
            Ok(_) | Err(_) => {
                self.problem(variable, format!("{value:?} is no positive integer"));
                default
            }
        }
    }

    /// A positive integer, or `none` for no limit.
    fn allowance(&mut self, variable: &'static str, default: Option<u32>) -> Option<u32> {
        match self.optional(variable).as_deref() {
            None => default,
            Some("none") => None,
            Some(_) => Some(self.positive(variable, 1)),
        }
    }

    fn listen(&mut self) -> SocketAddr {
        let default = SocketAddr::from(([0, 0, 0, 0], 8080));
        let Some(value) = self.optional("STACKORDER_LISTEN") else { return default };
        let full = if value.starts_with(':') { format!("0.0.0.0{value}") } else { value.clone() };
        full.parse().unwrap_or_else(|_| {
            self.problem("STACKORDER_LISTEN", format!("{value:?} is neither host:port nor :port"));
            default
        })
    }

    fn app_id(&mut self) -> u64 {
        let value = self.required("GITHUB_APP_ID");
        match value.parse() {
            Ok(id) if id > 0 => id,
            Ok(_) | Err(_) => {
                if !value.is_empty() {
                    self.problem("GITHUB_APP_ID", format!("{value:?} is no positive integer"));
                }
                0
            }
        }
    }

    /// PEM, PEM with literal `\n`, or base64 of the PEM.
    fn private_key(&mut self) -> SecretString {
        use base64::Engine as _;
        let value = self.required("GITHUB_APP_PRIVATE_KEY").replace("\\n", "\n");
        let decoded = base64::engine::general_purpose::STANDARD.decode(value.trim()).ok();
        let text = decoded.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or(value);
        if !text.is_empty() && !text.contains("PRIVATE KEY-----") {
            self.problem("GITHUB_APP_PRIVATE_KEY", "is no PEM private key");
        }
        SecretString::from(text)
    }

    fn workflow_pin(&mut self) -> Option<WorkflowPin> {
        let value = self.optional("STACKORDER_REQUIRED_WORKFLOW_REF")?;
        match WorkflowPin::parse(&value) {
            Ok(pin) => Some(pin),
            Err(error) => {
                self.problem("STACKORDER_REQUIRED_WORKFLOW_REF", error.to_string());
                None
            }
        }
    }

    /// `720h`, `90m`, `1h30m`.
    fn duration(&mut self, variable: &'static str, default: Millis) -> Millis {
        let Some(value) = self.optional(variable) else { return default };
        parse_duration(&value).unwrap_or_else(|| {
            self.problem(variable, format!("{value:?} is no positive duration such as 720h or 1h30m"));
            default
        })
    }

    /// The first of `allowed` is the default.
    fn one_of(&mut self, variable: &'static str, allowed: &[&'static str]) -> String {
        let Some(value) = self.optional(variable) else { return allowed[0].to_owned() };
        if !allowed.contains(&value.as_str()) {
            self.problem(variable, format!("{value:?} is not one of {}", allowed.join(", ")));
        }
        value
    }
}

fn parse_duration(text: &str) -> Option<Millis> {
    let mut total: Millis = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: Millis = rest[..digits].parse().ok()?;
        let unit = match rest[digits..].chars().next()? {
            'h' => HOUR_MS,
            'm' => MINUTE_MS,
            's' => SECOND_MS,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(unit)?)?;
        rest = &rest[digits + 1..];
    }
    (total > 0).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let base = [
            ("STACKORDER_BASE_URL", "https://stackorder.example.com/"),
            ("DATABASE_URL", "sqlite://stackorder.db"),
            ("GITHUB_APP_ID", "7"),
            ("GITHUB_APP_PRIVATE_KEY", "-----BEGIN PRIVATE KEY-----\\nabc\\n-----END PRIVATE KEY-----"),
            ("GITHUB_WEBHOOK_SECRET", "secret"),
        ];
        base.iter().chain(pairs).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn defaults_follow_from_the_base_url() {
        let settings = Settings::from_environment(&variables(&[])).unwrap();
        assert_eq!(settings.base_url, "https://stackorder.example.com");
        assert_eq!(settings.oidc_audience, settings.base_url);
        assert_eq!(settings.listen.port(), 8080);
        assert_eq!(settings.database_connections, 20);
        assert!(settings.oidc_jwks_url.ends_with("/.well-known/jwks"));
    }

    #[test]
    fn what_may_be_written_is_githubs_limit_unless_said_otherwise() {
        let writes = |pairs: &[(&str, &str)]| Settings::from_environment(&variables(pairs)).map(|read| read.writes);
        assert_eq!(writes(&[]).unwrap(), Allowance { per_minute: Some(80), per_hour: Some(500) });
        let said = writes(&[("GITHUB_WRITES_PER_MINUTE", "30"), ("GITHUB_WRITES_PER_HOUR", "none")]).unwrap();
        assert_eq!(said, Allowance { per_minute: Some(30), per_hour: None });
        assert_eq!(writes(&[("GITHUB_WRITES_PER_HOUR", "0")]).unwrap_err()[0].variable, "GITHUB_WRITES_PER_HOUR");
    }

    #[test]
    fn every_problem_is_reported_at_once() {
        let wrong = variables(&[
            ("DATABASE_URL", "mysql://x"),
            ("GITHUB_APP_ID", "seven"),
            ("STACKORDER_WORKERS", "0"),
            ("STACKORDER_LISTEN", "somewhere"),
            ("STACKORDER_PLAN_TEXT_RETENTION", "a while"),
        ]);
        let named: Vec<&str> =
            Settings::from_environment(&wrong).unwrap_err().iter().map(|problem| problem.variable).collect();
        assert_eq!(
            named,
            [
                "DATABASE_URL",
                "STACKORDER_WORKERS",
                "STACKORDER_LISTEN",
                "GITHUB_APP_ID",
                "STACKORDER_PLAN_TEXT_RETENTION",
            ]
        );
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        assert_eq!(parse_duration("1h30m"), Some(90 * MINUTE_MS));
        assert_eq!(parse_duration("720h"), Some(720 * HOUR_MS));
        for wrong in ["", "0h", "5", "h", "5d", "-1h"] {
            assert_eq!(parse_duration(wrong), None, "{wrong:?}");
        }
    }
}
