//! The part of SARIF 2.1.0 that is written, as types.
//!
//! They are written one result after the other. A tree of `serde_json` values would hold
//! the whole log at once, and `json!` copies what it is given at every level of the tree.

use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

#[derive(Serialize)]
pub(super) struct Log<'a, R> {
    #[serde(rename = "$schema")]
    pub(super) schema: &'static str,
    pub(super) version: &'static str,
    pub(super) runs: [Run<'a, R>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Run<'a, R> {
    pub(super) tool: Tool,
    pub(super) column_kind: &'static str,
    pub(super) original_uri_base_ids: BTreeMap<&'static str, Artifact>,
    pub(super) invocations: [Invocation<'a>; 1],
    pub(super) results: R,
}

#[derive(Serialize)]
pub(super) struct Tool {
    pub(super) driver: Driver,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Driver {
    pub(super) name: &'static str,
    pub(super) semantic_version: &'static str,
    pub(super) rules: Vec<Rule>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rule {
    pub(super) id: &'static str,
    pub(super) short_description: Message,
    pub(super) full_description: Message,
    pub(super) help: Help,
    pub(super) default_configuration: Configuration,
}

#[derive(Serialize)]
pub(super) struct Help {
    pub(super) text: &'static str,
    pub(super) markdown: &'static str,
}

#[derive(Serialize)]
pub(super) struct Configuration {
    pub(super) level: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Invocation<'a> {
    pub(super) execution_successful: bool,
    pub(super) arguments: &'a [String],
}

/// SARIF's name for it is `result`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Found<'a> {
    pub(super) rule_id: &'static str,
    pub(super) rule_index: usize,
    pub(super) level: &'static str,
    pub(super) message: Message,
    pub(super) partial_fingerprints: BTreeMap<&'static str, String>,
    pub(super) locations: Vec<Location<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) related_locations: Vec<Location<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) code_flows: Vec<CodeFlow<'a>>,
    pub(super) occurrence_count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) baseline_state: Option<&'static str>,
    /// None at all says that they are not known, and no entry that there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) suppressions: Option<Vec<Suppression<'a>>>,
    pub(super) properties: Properties<'a>,
}

/// What SARIF has no name for.
#[derive(Serialize)]
pub(super) struct Properties<'a> {
    pub(super) id: String,
    pub(super) fingerprint: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<redhanded_model::State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) verdict: Option<redhanded_model::Call>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) confidence: Option<f64>,
}

#[derive(Serialize)]
pub(super) struct Suppression<'a> {
    pub(super) kind: &'static str,
    pub(super) status: &'static str,
    pub(super) justification: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CodeFlow<'a> {
    pub(super) thread_flows: Vec<ThreadFlow<'a>>,
}

#[derive(Serialize)]
pub(super) struct ThreadFlow<'a> {
    pub(super) id: String,
    pub(super) message: Message,
    pub(super) locations: Vec<Step<'a>>,
}

#[derive(Serialize)]
pub(super) struct Step<'a> {
    pub(super) location: Location<'a>,
    pub(super) importance: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Location<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) physical_location: Option<PhysicalLocation>,
    pub(super) logical_locations: [LogicalLocation<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<Message>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PhysicalLocation {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) artifact_location: Option<Artifact>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) region: Option<Region>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) address: Option<Address>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LogicalLocation<'a> {
    pub(super) fully_qualified_name: Cow<'a, str>,
    pub(super) kind: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Artifact {
    pub(super) uri: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) uri_base_id: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Region {
    pub(super) start_line: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Address {
    pub(super) relative_address: u64,
    pub(super) fully_qualified_name: String,
    pub(super) kind: &'static str,
}

#[derive(Serialize)]
pub(super) struct Message {
    pub(super) text: String,
}
