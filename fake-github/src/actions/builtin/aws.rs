//! `aws-actions/configure-aws-credentials`: the job's OIDC token for a role's credentials.

use std::collections::BTreeMap;

use super::Use;
use crate::actions::job::Runner;

/// Asks for a token, assumes the role and exports what it gives.
pub(super) async fn configure(runner: &mut Runner<'_>, step: &Use) -> Result<BTreeMap<String, String>, String> {
    let inputs = &step.inputs;
    inputs.only(&[
        "role-to-assume",
        "role-session-name",
        "role-duration-seconds",
        "aws-region",
        "audience",
        "mask-aws-account-id",
        "output-credentials",
        "role-skip-session-tagging",
        "unset-current-credentials",
    ])?;
    let region = inputs.text("aws-region");
    if region.is_empty() {
        return Err("Input required and not supplied: aws-region".to_owned());
    }
    let role = inputs.text("role-to-assume");
    if role.is_empty() {
        return Err(
            "Could not load credentials: only `role-to-assume` with OIDC is supported by this engine's stand-in"
                .to_owned(),
        );
    }
    let session = Some(inputs.text("role-session-name")).filter(|s| !s.is_empty()).unwrap_or("GitHubActions");
    let audience = Some(inputs.text("audience")).filter(|a| !a.is_empty()).unwrap_or("sts.amazonaws.com");
    let duration = inputs.number("role-duration-seconds", 3600)?;
    // The endpoints are this machine's; a proxy from the environment would only be in the way.
    let client = reqwest::Client::builder().no_proxy().build().map_err(|e| format!("cannot make a client: {e}"))?;
    let token = tokio::select! {
        token = id_token(&client, step, audience) => token?,
        () = step.stop.wait() => return Err("The operation was canceled.".to_owned()),
    };
    runner.log.mask(&token);
    let endpoint = step
        .env
        .get("AWS_ENDPOINT_URL_STS")
        .ok_or("AWS_ENDPOINT_URL_STS is not set: this engine calls no real cloud")?;
    let duration = duration.to_string();
    let form = [
        ("Action", "AssumeRoleWithWebIdentity"),
        ("Version", "2011-06-15"),
        ("RoleArn", role),
        ("RoleSessionName", session),
        ("DurationSeconds", duration.as_str()),
        ("WebIdentityToken", token.as_str()),
    ];
    let answer = tokio::select! {
        answer = post_form(&client, endpoint, &form) => answer?,
        () = step.stop.wait() => return Err("The operation was canceled.".to_owned()),
    };
    let value = |tag: &str| element(&answer, tag).ok_or_else(|| format!("the STS answer has no {tag}"));
    let (id, secret, session_token) = (value("AccessKeyId")?, value("SecretAccessKey")?, value("SessionToken")?);
    [&id, &secret, &session_token].into_iter().for_each(|text| runner.log.mask(text));
    let account = role.split(':').nth(4).unwrap_or_default().to_owned();
    let variables = [
        ("AWS_ACCESS_KEY_ID", id),
        ("AWS_SECRET_ACCESS_KEY", secret),
        ("AWS_SESSION_TOKEN", session_token),
        ("AWS_DEFAULT_REGION", region.to_owned()),
        ("AWS_REGION", region.to_owned()),
    ];
    runner.env.extend(variables.map(|(name, value)| (name.to_owned(), value)));
    runner.log.line(&format!("Authenticated as assumed role {role}, session {session}"));
    Ok(BTreeMap::from([("aws-account-id".to_owned(), account)]))
}

async fn id_token(client: &reqwest::Client, step: &Use, audience: &str) -> Result<String, String> {
    const MISSING: &str = "Credentials could not be loaded, please check your action inputs: It looks like you might be \
                           trying to authenticate with OIDC. Did you mean to set the `id-token` permission?";
    let url = step.env.get("ACTIONS_ID_TOKEN_REQUEST_URL").ok_or(MISSING)?;
    let bearer = step.env.get("ACTIONS_ID_TOKEN_REQUEST_TOKEN").ok_or(MISSING)?;
    let joint = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{joint}audience={}", encoded(audience));
    let fail = |e: reqwest::Error| format!("Failed to get ID Token: {}", e.without_url());
    let answer = client.get(url).bearer_auth(bearer).send().await.map_err(fail)?.error_for_status().map_err(fail)?;
    let body: serde_json::Value = answer.json().await.map_err(fail)?;
    body["value"]
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| "Failed to get ID Token: the answer has no value".to_owned())
}

async fn post_form(client: &reqwest::Client, endpoint: &str, form: &[(&str, &str)]) -> Result<String, String> {
    let body = form.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect::<Vec<_>>().join("&");
    let fail = |e: reqwest::Error| format!("Could not assume role with OIDC: {}", e.without_url());
    let request = client.post(endpoint).header("content-type", "application/x-www-form-urlencoded").body(body);
    let answer = request.send().await.map_err(fail)?;
    let status = answer.status();
    let text = answer.text().await.map_err(fail)?;
    if status.is_success() {
        return Ok(text);
    }
    let message = element(&text, "Message").unwrap_or_else(|| status.to_string());
    Err(format!("Could not assume role with OIDC: {message}"))
}

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// The text of the first element of a name; enough XML for an answer of STS.
fn element(xml: &str, name: &str) -> Option<String> {
    let start = xml.find(&format!("<{name}>"))? + name.len() + 2;
    let end = start + xml[start..].find(&format!("</{name}>"))?;
    let text = xml[start..end].trim();
    Some(text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&"))
}
