//! State files of version 4 in an S3 bucket, with the lock object that the real tool would use.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::value::Value;
use crate::demo::s3::percent_encode;

const PROVIDER: &str = "provider[\"terraform.io/builtin/terraform\"]";

/// Where one instance of a resource stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Place {
    /// `module.a.module.b`, empty in the stack's own module.
    pub(super) module: String,
    pub(super) name: String,
    /// Key of `for_each` or number of `count`.
    pub(super) index: Option<Value>,
}

impl Place {
    pub(super) fn address(&self) -> String {
        let dot = if self.module.is_empty() { "" } else { "." };
        let index = self.index.as_ref().map(|index| format!("[{}]", index.to_json())).unwrap_or_default();
        format!("{}{dot}terraform_data.{}{index}", self.module, self.name)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Instance {
    pub(super) place: Place,
    pub(super) id: String,
    pub(super) input: Value,
    pub(super) output: Value,
    pub(super) triggers_replace: Value,
    /// Its creation failed half-way: the next plan replaces it.
    pub(super) tainted: bool,
}

impl Instance {
    pub(super) fn attributes(&self) -> Value {
        let fields = [
            ("id", Value::text(&self.id)),
            ("input", self.input.clone()),
            ("output", self.output.clone()),
            ("triggers_replace", self.triggers_replace.clone()),
        ];
        Value::Map(fields.map(|(name, value)| (name.to_owned(), value)).into())
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct OutputValue {
    pub(super) value: Value,
    pub(super) sensitive: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct State {
    pub(super) serial: u64,
    /// Empty while there is no state object.
    pub(super) lineage: String,
    pub(super) outputs: BTreeMap<String, OutputValue>,
    /// By address.
    pub(super) instances: BTreeMap<String, Instance>,
}

impl State {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let json: Json = serde_json::from_slice(bytes).map_err(|error| format!("the state is no JSON: {error}"))?;
        if json["version"] != 4 {
            return Err(format!("state files of version {} are not played here", json["version"]));
        }
        let mut state = Self {
            serial: json["serial"].as_u64().unwrap_or_default(),
            lineage: json["lineage"].as_str().unwrap_or_default().to_owned(),
            ..Self::default()
        };
        for (name, output) in json["outputs"].as_object().into_iter().flatten() {
            let value = Value::from_json(&output["value"]);
            let sensitive = output["sensitive"].as_bool().unwrap_or_default();
            state.outputs.insert(name.clone(), OutputValue { value, sensitive });
        }
        for resource in json["resources"].as_array().into_iter().flatten() {
            if resource["mode"] != "managed" {
                continue;
            }
            if resource["type"] != "terraform_data" {
                return Err(format!("the state holds {}, which is not played here", resource["type"]));
            }
            for instance in resource["instances"].as_array().into_iter().flatten() {
                let index = &instance["index_key"];
                let attributes = &instance["attributes"];
                let instance = Instance {
                    place: Place {
                        module: resource["module"].as_str().unwrap_or_default().to_owned(),
                        name: resource["name"].as_str().unwrap_or_default().to_owned(),
                        index: (!index.is_null()).then(|| Value::from_json(index)),
                    },
                    id: attributes["id"].as_str().unwrap_or_default().to_owned(),
                    input: dynamic(&attributes["input"]),
                    output: dynamic(&attributes["output"]),
                    triggers_replace: dynamic(&attributes["triggers_replace"]),
                    tainted: instance["status"] == "tainted",
                };
                state.instances.insert(instance.place.address(), instance);
            }
        }
        Ok(state)
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let outputs: serde_json::Map<_, _> = self.outputs.iter().map(|(n, o)| (n.clone(), output_json(o))).collect();
        let mut resources: BTreeMap<(String, String), Vec<Json>> = BTreeMap::new();
        for instance in self.instances.values() {
            let key = (instance.place.module.clone(), instance.place.name.clone());
            let mut json = json!({
                "schema_version": 0,
                "attributes": {
                    "id": instance.id,
                    "input": typed(&instance.input),
                    "output": typed(&instance.output),
                    "triggers_replace": typed(&instance.triggers_replace),
                },
                "sensitive_attributes": [],
            });
            if let Some(index) = &instance.place.index {
                json["index_key"] = index.to_json();
            }
            if instance.tainted {
                json["status"] = json!("tainted");
            }
            resources.entry(key).or_default().push(json);
        }
        let resources: Vec<Json> = resources
            .into_iter()
            .map(|((module, name), instances)| {
                let mut json = json!({
                    "mode": "managed", "type": "terraform_data", "name": name,
                    "provider": PROVIDER, "instances": instances,
                });
                if !module.is_empty() {
                    json["module"] = json!(module);
                }
                json
            })
            .collect();
        let state = json!({
            "version": 4,
            "terraform_version": super::VERSION,
            "serial": self.serial,
            "lineage": self.lineage,
            "outputs": outputs,
            "resources": resources,
            "check_results": null,
        });
        format!("{state:#}\n").into_bytes()
    }
}

pub(super) fn output_json(output: &OutputValue) -> Json {
    let mut json = json!({ "value": output.value.to_json(), "type": output.value.type_json() });
    if output.sensitive {
        json["sensitive"] = json!(true);
    }
    json
}

/// Attributes of any type are written with their type.
fn dynamic(json: &Json) -> Value {
    Value::from_json(&json["value"])
}

fn typed(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        value => json!({ "value": value.to_json(), "type": value.type_json() }),
    }
}

/// The bucket, reached through the same variables as the real tool's backend.
pub(super) struct Remote {
    runtime: tokio::runtime::Runtime,
    client: reqwest::Client,
    endpoint: reqwest::Url,
}

impl Remote {
    pub(super) fn new(environment: &BTreeMap<String, String>) -> Result<Self, String> {
        let endpoint = environment
            .get("AWS_ENDPOINT_URL_S3")
            .ok_or("the stand-in reaches no AWS: AWS_ENDPOINT_URL_S3 must name the demo's store")?;
        let endpoint = reqwest::Url::parse(endpoint).map_err(|error| format!("AWS_ENDPOINT_URL_S3: {error}"))?;
        let mut client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(30));
        if let Some(proxy) = environment.get("HTTP_PROXY") {
            let excluded = environment.get("NO_PROXY").and_then(|hosts| reqwest::NoProxy::from_string(hosts));
            let proxy = reqwest::Proxy::http(proxy).map_err(|error| format!("HTTP_PROXY: {error}"))?;
            client = client.proxy(proxy.no_proxy(excluded));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(Self {
            runtime: runtime.map_err(|error| format!("cannot start a runtime: {error}"))?,
            client: client.build().map_err(|error| format!("cannot make a client: {error}"))?,
            endpoint,
        })
    }

    pub(super) fn runtime(&self) -> &tokio::runtime::Runtime {
        &self.runtime
    }

    pub(super) fn get(&self, bucket: &str, key: &str) -> Result<Option<Vec<u8>>, String> {
        let what = format!("reading s3://{bucket}/{key}");
        self.runtime.block_on(async {
            let answer = self.client.get(self.url(bucket, key)?).send().await.map_err(|e| failed(&what, &e))?;
            match answer.status().as_u16() {
                404 => Ok(None),
                200 => Ok(Some(answer.bytes().await.map_err(|e| failed(&what, &e))?.to_vec())),
                status => Err(format!("{what}: status {status}")),
            }
        })
    }

    pub(super) fn put(&self, bucket: &str, key: &str, bytes: Vec<u8>) -> Result<(), String> {
        let what = format!("writing s3://{bucket}/{key}");
        let request = self.client.put(self.url(bucket, key)?).body(bytes);
        match self.status(request, &what)? {
            200 => Ok(()),
            status => Err(format!("{what}: status {status}")),
        }
    }

    /// Writes an object that must not exist yet; `false` when it does.
    pub(super) fn create(&self, bucket: &str, key: &str, bytes: Vec<u8>) -> Result<bool, String> {
        let what = format!("writing s3://{bucket}/{key}");
        let request = self.client.put(self.url(bucket, key)?).header("if-none-match", "*").body(bytes);
        match self.status(request, &what)? {
            200 => Ok(true),
            409 | 412 => Ok(false),
            status => Err(format!("{what}: status {status}")),
        }
    }

    pub(super) fn delete(&self, bucket: &str, key: &str) -> Result<(), String> {
        let what = format!("deleting s3://{bucket}/{key}");
        match self.status(self.client.delete(self.url(bucket, key)?), &what)? {
            200 | 204 => Ok(()),
            status => Err(format!("{what}: status {status}")),
        }
    }

    fn status(&self, request: reqwest::RequestBuilder, what: &str) -> Result<u16, String> {
        self.runtime.block_on(async { Ok(request.send().await.map_err(|e| failed(what, &e))?.status().as_u16()) })
    }

    fn url(&self, bucket: &str, key: &str) -> Result<reqwest::Url, String> {
        let host = self.endpoint.host_str().unwrap_or_default();
        let port = self.endpoint.port().map(|port| format!(":{port}")).unwrap_or_default();
        let key = percent_encode(key);
        let url = match host {
            "localhost" | "127.0.0.1" => format!("http://{host}{port}/{bucket}/{key}"),
            host => format!("http://{bucket}.{host}{port}/{key}"),
        };
        reqwest::Url::parse(&url).map_err(|error| format!("{url}: {error}"))
    }
}

fn failed(what: &str, error: &reqwest::Error) -> String {
    format!("{what}: {error}")
}
