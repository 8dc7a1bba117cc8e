//! What went wrong for others in reading files, module sources and remote states, each with its smallest input.

use super::{edges, scanned, warnings};
use crate::graph::model::Graph;
use crate::graph::{ResolveRequest, resolve};
use crate::scan::{Entry, EntryKind, Files, MemoryFiles, ScanOptions, scan};

const S3: &str = "terraform {\n  backend \"s3\" {}\n}\n";
const TOFU: &str = "tool: tofu\n";

fn keys(graph: &Graph) -> Vec<&str> {
    graph.stacks.iter().map(|stack| stack.key.as_str()).collect()
}

/// A stack `stacks/a` beside a module `modules/m`; the edge to it must be found, without a warning.
fn finds_the_module(text: impl Into<Vec<u8>>) {
    let files = MemoryFiles::default()
        .with("stacks/a/backend.tf", S3)
        .with("stacks/a/main.tf", text)
        .with("modules/m/main.tf", "");
    let graph = scanned(&files);
    assert_eq!(edges(&graph), ["stacks/a uses_module acme/infra//modules/m"]);
    assert_eq!(warnings(&graph), Vec::<String>::new());
}

const CALL: &str = "module \"m\" { source = \"../../modules/m\" }\n";

/// Two stacks, of which `stacks/net` writes `s3://b/net.tfstate` and `stacks/app` holds `text`.
fn reader_of_net(text: &str) -> MemoryFiles {
    let backend = "terraform {\n  backend \"s3\" {\n    bucket = \"b\"\n    key = \"net.tfstate\"\n  }\n}\n";
    MemoryFiles::default().with("stacks/net/main.tf", backend).with("stacks/app/main.tf", format!("{S3}{text}"))
}

fn remote_state(key: &str) -> String {
    format!(
        "data \"terraform_remote_state\" \"net\" {{\n  backend = \"s3\"\n  config = {{\n    bucket = \"b\"\n    key = {key}\n  }}\n}}\n"
    )
}

#[test]
fn bl_001_a_quote_opened_in_a_heredoc_hid_the_rest_of_the_file() {
    finds_the_module(format!(
        "resource \"null_resource\" \"b\" {{\n  triggers = {{ spec = <<-EOT\n    run \"first half \\\n      second half\"\n  EOT\n  }}\n}}\n{CALL}"
    ));
}

#[test]
fn bl_003_an_interpolation_over_several_lines_of_a_heredoc_shifted_line_numbers() {
    finds_the_module(format!("locals {{\n  v = <<EOT\n${{\n  1 + 2\n}}\nEOT\n}}\n{CALL}"));
    let files = MemoryFiles::default().with(
        "stacks/a/main.tf",
        format!("{S3}locals {{\n  v = <<EOT\n${{\n  1 + 2\n}}\nEOT\n}}\nmodule \"m\" {{ source = \"m\" }}\n"),
    );
    assert_eq!(warnings(&scanned(&files)), ["stacks/a/main.tf:11: module \"m\": source \"m\" is not supported"]);
}

#[test]
fn bl_004_one_line_with_crlf_made_the_file_unreadable() {
    finds_the_module("module \"m\" {\r\n  source = \"../../modules/m\"\r\n}\n");
    finds_the_module("module \"m\" {\r\n  source = \"../../modules/m\"\n}\r\n");
    finds_the_module("module \"m\" {\r\n  source = <<EOT\r\n../../modules/m\r\nEOT\r\n}\r\n");
}

#[test]
fn bl_006_a_byte_order_mark_stopped_the_scan() {
    finds_the_module([b"\xef\xbb\xbf", CALL.as_bytes()].concat());
}

#[test]
fn bl_008_a_provider_function_cost_the_whole_file() {
    finds_the_module(format!("locals {{ u = provider::corefn::slug(\"Ä B\") }}\n{CALL}"));
}

#[test]
fn bl_009_a_marker_glued_to_the_last_line_was_taken_for_the_end_of_a_heredoc() {
    let files = MemoryFiles::default()
        .with("stacks/a/broken.tf", "locals {\n  pattern = <<P\n{ \"k\": 1 }P\n}\n")
        .with("stacks/a/main.tf", format!("{S3}{CALL}"))
        .with("modules/m/main.tf", "");
    let graph = scanned(&files);
    assert_eq!(edges(&graph), ["stacks/a uses_module acme/infra//modules/m"]);
    let found = warnings(&graph);
    assert!(found.iter().any(|text| text.starts_with("stacks/a/broken.tf:")), "{found:?}");
    finds_the_module(format!("locals {{\n  pattern = <<P\nx\n  P\n}}\n{CALL}"));
}

#[test]
fn bl_010_an_override_without_a_source_stopped_everything() {
    let files = MemoryFiles::default()
        .with("stacks/a/vpc.tf", format!("{S3}module \"vpc\" {{ source = \"../../m/vpc\" }}\n"))
        .with("stacks/a/vpc_override.tf", "module \"vpc\" { cidr = \"10.1.0.0/16\" }\n")
        .with("m/vpc/main.tf", "");
    let graph = scanned(&files);
    assert_eq!(edges(&graph), ["stacks/a uses_module acme/infra//m/vpc"]);
    assert_eq!(warnings(&graph), Vec::<String>::new());
}

#[test]
fn bl_011_a_file_named_like_an_override_stopped_the_scan() {
    let only = "{\"resource\":{\"null_resource\":{\"n\":{}}}}";
    let files = MemoryFiles::default().with("stacks/a/main.tf", S3).with("stacks/a/x_override.tf.json", only);
    assert_eq!(keys(&scanned(&files)), ["stacks/a"]);
    let backend = |key: &str| format!("terraform {{\n  backend \"s3\" {{ key = \"{key}\" }}\n}}\n");
    for name in ["override.tf", "x_override.tf", "override.tofu", "x_override.tofu"] {
        let files = MemoryFiles::default()
            .with("stackorder.yaml", TOFU)
            .with("stacks/a/zz.tf", backend("base"))
            .with(&format!("stacks/a/{name}"), backend("over"));
        let graph = scanned(&files);
        assert_eq!(graph.stacks[0].backend.as_ref().map(|backend| backend.key.as_str()), Some("over"), "{name}");
    }
}

#[test]
fn bl_012_a_stack_of_tofu_files_was_not_seen() {
    let files = MemoryFiles::default()
        .with("stackorder.yaml", TOFU)
        .with("stacks/a/main.tofu", format!("{S3}module \"m\" {{ source = \"../../m\" }}\n"))
        .with("m/main.tofu", "");
    let graph = scanned(&files);
    assert_eq!(edges(&graph), ["stacks/a uses_module acme/infra//m"]);
    assert_eq!(warnings(&graph), Vec::<String>::new());

    let under_terraform = scanned(&files.with("stackorder.yaml", "tool: terraform\n"));
    assert_eq!(keys(&under_terraform), Vec::<&str>::new());
    assert_eq!(
        warnings(&under_terraform),
        ["stacks/a: stacks/a holds only .tofu files, which its tool, terraform, does not read"]
    );
}

#[test]
fn bl_012_both_files_of_one_name_were_read() {
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", format!("{S3}module \"m\" {{ source = \"../../m/tf\" }}\n"))
        .with("stacks/a/main.tofu", format!("{S3}module \"m\" {{ source = \"../../m/tofu\" }}\n"))
        .with("m/tf/main.tf", "")
        .with("m/tofu/main.tf", "");
    assert_eq!(edges(&scanned(&files)), ["stacks/a uses_module acme/infra//m/tf"]);
    let files = files.with("stacks/a/.stackorder.yaml", TOFU);
    assert_eq!(edges(&scanned(&files)), ["stacks/a uses_module acme/infra//m/tofu"]);
}

#[test]
fn bl_013_letters_beyond_ascii_in_names_were_refused() {
    finds_the_module(format!("resource \"null_resource\" \"größe\" {{}}\nlocals {{ 値 = 1 }}\n{CALL}"));
}

#[test]
fn bl_015_backticks_in_a_description_made_a_flood_of_errors() {
    finds_the_module(format!("variable \"x\" {{ description = \"use `foo`\" }}\n{CALL}"));
    let broken = MemoryFiles::default().with("stacks/a/main.tf", format!("{S3}locals {{\n  a = [\n  b = {{\n"));
    assert_eq!(warnings(&scanned(&broken)).len(), 1, "{:?}", warnings(&scanned(&broken)));
}

#[test]
fn bl_016_an_import_block_with_for_each_was_fatal() {
    finds_the_module(format!(
        "import {{\n  for_each = local.mails\n  to = x_user.u[each.key]\n  id = each.value\n}}\nnewer \"a\" \"b\" \"c\" {{ x {{}} }}\n{CALL}"
    ));
}

#[test]
fn bl_018_a_directory_of_override_files_was_listed_as_a_stack() {
    let files = MemoryFiles::default()
        .with("stacks/x/override.tf.json", "{\"terraform\": {\"backend\": {\"s3\": {\"bucket\": \"b\"}}}}");
    assert_eq!(keys(&scanned(&files)), Vec::<&str>::new());
    let named = scanned(&files.with("stackorder.yaml", "stacks: { include: [stacks/x] }\n"));
    assert_eq!(warnings(&named), ["stacks/x: stacks/x is included as a stack, but it has only override files"]);
}

#[test]
fn bl_020_a_source_made_of_a_local_lost_its_edge() {
    finds_the_module("locals { dir = \"../../modules\" }\nmodule \"m\" { source = \"${local.dir}/m\" }\n");
    finds_the_module("variable \"dir\" { default = \"../../modules\" }\nmodule \"m\" { source = \"${var.dir}/m\" }\n");
    let unknown = MemoryFiles::default().with(
        "stacks/a/main.tf",
        format!("{S3}variable \"dir\" {{}}\nmodule \"m\" {{\n  source = \"${{var.dir}}/m\"\n}}\n"),
    );
    assert_eq!(
        warnings(&scanned(&unknown)),
        [
            "stacks/a/main.tf:6: module \"m\": its source is not known before the tool runs, so the edge is unresolved: var.dir has no known value"
        ]
    );
}

#[test]
fn bl_022_a_ref_made_of_a_local_was_taken_for_a_local_path() {
    let files = MemoryFiles::default().with(
        "stacks/a/main.tf",
        format!(
            "{S3}locals {{ ver = \"1.5.5\" }}\nmodule \"m\" {{ source = \"git@git.example.com:o/mod.git?ref=v${{local.ver}}\" }}\nmodule {{ source = \"./x\" }}\n"
        ),
    );
    let graph = scanned(&files);
    assert_eq!(edges(&graph), ["stacks/a uses_module git.example.com/o/mod@v1.5.5"]);
    assert_eq!(warnings(&graph), ["stacks/a/main.tf:6: a module block needs exactly one label, its name"]);
}

#[test]
fn bl_023_an_interpolated_source_crashed_the_reader() {
    let files = MemoryFiles::default().with(
        "stacks/a/main.tf",
        format!("{S3}terraform {{ source = \"git::https://g.example/x.git?ref=${{local.v}}\" }}\nmodule \"m\" {{ source = \"git::https://g.example/x.git?ref=${{local.v}}\" }}\n"),
    );
    let graph = scanned(&files);
    assert_eq!(edges(&graph), Vec::<String>::new());
    assert_eq!(warnings(&graph).len(), 1);
    assert!(warnings(&graph)[0].ends_with("local.v is not declared"), "{:?}", warnings(&graph));
}

#[test]
fn bl_024_a_module_that_calls_itself_ended_the_process() {
    let files = MemoryFiles::default()
        .with(
            "stacks/a/main.tf",
            format!("{S3}module \"self\" {{ source = \"./\" }}\nmodule \"x\" {{ source = \"../../m/x\" }}\n"),
        )
        .with(
            "m/x/main.tf",
            "variable \"p\" { default = \"y\" }\nmodule \"y\" {\n  source = \"../${var.p}\"\n  p = \"${var.p}\"\n}\n",
        )
        .with("m/y/main.tf", "variable \"p\" {}\nmodule \"x\" {\n  source = \"../x\"\n  q = \"${var.p}a\"\n}\n");
    let graph = scanned(&files);
    assert_eq!(
        edges(&graph),
        [
            "acme/infra//m/x uses_module acme/infra//m/y",
            "acme/infra//m/y uses_module acme/infra//m/x",
            "stacks/a uses_module acme/infra//m/x",
        ]
    );
    assert_eq!(
        warnings(&graph),
        ["stacks/a/main.tf:4: module \"self\": source \"./\" is the calling directory itself"]
    );
}

#[test]
fn bl_024_a_cycle_whose_values_grow_ends() {
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", format!("{S3}module \"x\" {{ source = \"../../m/x\" }}\n"))
        .with("m/x/main.tf", "variable \"p\" { default = \"\" }\nlocals { d = \"..\" }\nmodule \"y\" {\n  source = \"${local.d}/y\"\n  p = \"${var.p}a\"\n}\n")
        .with("m/y/main.tf", "variable \"p\" {}\nmodule \"x\" {\n  source = \"../x\"\n  p = \"${var.p}b\"\n}\n");
    let graph = scanned(&files);
    assert_eq!(graph.edges.len(), 3);
    assert_eq!(warnings(&graph).len(), 1);
    assert!(warnings(&graph)[0].contains("too deep"), "{:?}", warnings(&graph));
}

#[test]
fn bl_025_a_source_outside_the_repository_was_a_panic() {
    let files = MemoryFiles::default()
        .with("stacks/x/main.tf", format!("{S3}module \"m\" {{ source = \"../../../outside\" }}\n"));
    assert_eq!(
        warnings(&scanned(&files)),
        ["stacks/x/main.tf:4: module \"m\": source \"../../../outside\" leads out of the repository"]
    );
}

#[test]
fn bl_026_modules_of_stacks_named_in_the_configuration_were_not_followed() {
    let files = MemoryFiles::default()
        .with("stackorder.yaml", "stacks: { discover: ['none/*'], include: [a, b] }\n")
        .with("a/main.tf", format!("{S3}module \"m\" {{ source = \"../modules/m\" }}\n"))
        .with("b/main.tf", S3)
        .with("modules/m/main.tf", "");
    assert_eq!(edges(&scanned(&files)), ["a uses_module acme/infra//modules/m"]);
}

#[test]
fn bl_028_and_bl_031_modules_within_modules_lost_their_callers() {
    let files = MemoryFiles::default()
        .with("stacks/t/main.tf", format!("{S3}module \"m\" {{ source = \"../../modules/a/\" }}\n"))
        .with("modules/a/main.tf", "module \"n\" { source = \"./nested\" }\nmodule \"b\" { source = \"./../b\" }\n")
        .with("modules/a/nested/main.tf", "")
        .with("modules/b/main.tf", "");
    let graph = scanned(&files);
    assert_eq!(keys(&graph), ["stacks/t"]);
    assert_eq!(
        edges(&graph),
        [
            "acme/infra//modules/a uses_module acme/infra//modules/a/nested",
            "acme/infra//modules/a uses_module acme/infra//modules/b",
            "stacks/t uses_module acme/infra//modules/a",
        ]
    );
}

#[test]
fn bl_031_every_spelling_of_a_module_path_is_the_same_module() {
    let call = |source: &str| format!("{S3}module \"m\" {{ source = \"{source}\" }}\n");
    let files = MemoryFiles::default()
        .with("stacks/p1/main.tf", call("../../modules/a/"))
        .with("stacks/p2/main.tf", call("./.././../modules/x/../a"))
        .with("stacks/p3/main.tf", call("./modules//a"))
        .with("stacks/p3/modules/a/main.tf", "")
        .with("modules/a/main.tf", "module \"b\" { source = \"./../b\" }\n")
        .with("modules/b/main.tf", "");
    let graph = scanned(&files);
    assert_eq!(keys(&graph), ["stacks/p1", "stacks/p2", "stacks/p3"], "no folder above a module is a stack");
    assert_eq!(
        edges(&graph),
        [
            "acme/infra//modules/a uses_module acme/infra//modules/b",
            "stacks/p1 uses_module acme/infra//modules/a",
            "stacks/p2 uses_module acme/infra//modules/a",
            "stacks/p3 uses_module acme/infra//stacks/p3/modules/a",
        ]
    );
    assert_eq!(warnings(&graph), Vec::<String>::new());
}

#[test]
fn bl_029_a_stack_whose_name_only_begins_alike_was_touched() {
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", format!("{S3}{CALL}"))
        .with("stacks/aa/main.tf", S3)
        .with("modules/m/main.tf", "");
    assert_eq!(edges(&scanned(&files)), ["stacks/a uses_module acme/infra//modules/m"]);
}

#[test]
fn bl_033_linked_files_were_read_as_if_they_lay_at_their_target() {
    let files = MemoryFiles::default()
        .with("shared/main.tf", format!("{S3}{CALL}"))
        .with_entry("stacks/a/main.tf", EntryKind::FileLink { target: "shared/main.tf".into() })
        .with_entry("stacks/b/x.tf", EntryKind::BadLink { reason: "the link leads to itself".into() })
        .with("modules/m/main.tf", "");
    let graph = scanned(&files);
    assert_eq!(edges(&graph), ["stacks/a uses_module acme/infra//modules/m"]);
    assert_eq!(
        warnings(&graph),
        [
            "stacks/b/x.tf: the link leads to itself",
            "stacks/b/x.tf: stacks/b has no backend as far as its files could be read, so it is not taken for a stack",
        ]
    );
}

#[test]
fn bl_034_a_backend_given_on_the_command_line_was_not_known() {
    let files = reader_of_net(&remote_state("\"late.tfstate\""))
        .with("stacks/late/main.tf", S3)
        .with("stacks/late/.stackorder.yaml", "backend_config: [key=late.tfstate, env/prd.tfbackend]\n")
        .with("env/prd.tfbackend", "bucket = \"b\"\n");
    assert_eq!(edges(&scanned(&files)), ["stacks/app reads_state stacks/late"]);
}

#[test]
fn bl_034_a_backend_that_nobody_configures_is_listed_with_a_note() {
    let files = reader_of_net(&remote_state("\"late.tfstate\"")).with("stacks/late/main.tf", S3);
    let graph = scanned(&files);
    assert_eq!((keys(&graph).len(), edges(&graph).len()), (3, 0));
    let notes: Vec<String> = graph.stacks[1].warnings.iter().map(ToString::to_string).collect();
    assert_eq!(notes, ["stacks/late: state key not known; edges to it need depends_on"]);
    assert_eq!(graph.stacks[2].warnings, [], "a stack whose state is known needs no note");
    let depending = scanned(&files.with("stacks/app/.stackorder.yaml", "depends_on: [stacks/late]\n"));
    assert_eq!(edges(&depending), ["stacks/app depends_on stacks/late"]);
}

#[test]
fn bl_035_the_workspace_written_into_a_key_led_nowhere() {
    let backend =
        "terraform {\n  backend \"s3\" {\n    bucket = \"b\"\n    key = \"networks/network.tfstate\"\n  }\n}\n";
    let instances = "workspace: '{{ .Instance }}'\ninstances: [dev, prd]\n";
    let files = MemoryFiles::default()
        .with("stacks/networks/main.tf", backend)
        .with("stacks/networks/.stackorder.yaml", instances)
        .with(
            "stacks/app/main.tf",
            S3.to_owned() + &remote_state("\"env:/${terraform.workspace}/networks/network.tfstate\""),
        )
        .with("stacks/app/.stackorder.yaml", instances);
    let graph = scanned(&files);
    assert_eq!(
        edges(&graph),
        ["stacks/app:dev reads_state stacks/networks:dev", "stacks/app:prd reads_state stacks/networks:prd"]
    );
    assert_eq!(warnings(&graph), Vec::<String>::new());
}

#[test]
fn bl_039_a_key_from_a_file_of_values_was_unknown() {
    let text = format!("variable \"net_key\" {{}}\n{}", remote_state("var.net_key"));
    let files = reader_of_net(&text).with("stacks/app/terraform.tfvars", "net_key = \"net.tfstate\"\n");
    assert_eq!(edges(&scanned(&files)), ["stacks/app reads_state stacks/net"]);
    // Later files win, and one that cannot be read may say anything.
    let other = files.clone().with("stacks/app/z.auto.tfvars.json", "{\"net_key\": \"other\"}");
    assert_eq!(edges(&scanned(&other)), Vec::<String>::new());
    let broken = scanned(&files.with("stacks/app/z.auto.tfvars", "net_key = \"other"));
    assert_eq!(edges(&broken), Vec::<String>::new());
    assert!(warnings(&broken)[0].contains("stacks/app/main.tf:9: remote state"), "{:?}", warnings(&broken));
}

#[test]
fn bl_039_a_block_for_each_of_a_set_was_one_unknown_read() {
    let block = |set: &str| {
        format!(
            "{S3}locals {{ env = \"dev\" }}\ndata \"terraform_remote_state\" \"x\" {{\n  for_each = {set}\n  backend = \"s3\"\n  config = {{ bucket = \"b\", key = \"${{local.env}}/${{each.key}}.tfstate\" }}\n}}\n"
        )
    };
    let writer = |name: &str| {
        format!("terraform {{\n  backend \"s3\" {{\n    bucket = \"b\"\n    key = \"dev/{name}.tfstate\"\n  }}\n}}\n")
    };
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", writer("a"))
        .with("stacks/b/main.tf", writer("b"))
        .with("stacks/app/main.tf", block("toset([\"a\", \"b\"])"));
    assert_eq!(edges(&scanned(&files)), ["stacks/app reads_state stacks/a", "stacks/app reads_state stacks/b"]);
    let unknown = scanned(&files.with("stacks/app/main.tf", block("var.names")));
    assert_eq!(
        warnings(&unknown),
        [
            "stacks/app/main.tf:8: remote state \"x\": cannot infer what it reads: \"key\" of its config is not known: each.key has no known value"
        ]
    );
}

/// Counts how often each file is read.
struct Counting {
    files: MemoryFiles,
    reads: std::sync::Mutex<std::collections::BTreeMap<String, usize>>,
}

impl Files for Counting {
    fn list(&self) -> std::borrow::Cow<'_, [Entry]> {
        self.files.list()
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        *self.reads.lock().unwrap().entry(path.to_owned()).or_default() += 1;
        self.files.read(path)
    }
}

#[test]
fn bl_061_the_cost_grew_with_the_number_of_changes_and_not_of_files() {
    const STACKS: usize = 1_000;
    let mut files = MemoryFiles::default();
    for number in 0..STACKS {
        let backend =
            format!("terraform {{\n  backend \"s3\" {{\n    bucket = \"b\"\n    key = \"{number}\"\n  }}\n}}\n");
        let calls: String = (0..3)
            .map(|call| {
                format!("module \"m{call}\" {{\n  source = \"../../modules/m{}\"\n}}\n", (number + call * 7) % 100)
            })
            .collect();
        let reads: String = (1..3)
            .filter(|back| number >= *back)
            .map(|back| {
                let state = remote_state(&format!("\"{}\"", number - back));
                state.replace("\"net\"", &format!("\"net{back}\""))
            })
            .collect();
        files.insert(&format!("stacks/s{number:04}/main.tf"), format!("{backend}{calls}{reads}"));
        files.insert(&format!("stacks/s{number:04}/values.tf"), format!("locals {{ n = {number} }}\n"));
    }
    for number in 0..100 {
        files.insert(&format!("modules/m{number}/main.tf"), "variable \"x\" {}\n");
    }
    let counting = Counting { files, reads: std::sync::Mutex::default() };
    let scanned = scan(&counting, &ScanOptions::new("acme/infra", "")).expect("the checkout is valid");
    let reads = counting.reads.lock().unwrap();
    assert!(scanned.graph.edges.len() > 4_900, "{}", scanned.graph.edges.len());
    assert_eq!(reads.len(), 2 * STACKS + 100);
    assert!(reads.values().all(|times| *times == 1), "each file is read once");

    // Adding changed files adds what they touch and nothing else: one walk answers for all of them.
    let change = |count: usize| ResolveRequest {
        changed_paths: (0..count).map(|number| format!("stacks/s{:04}/values.tf", STACKS - 1 - number)).collect(),
        ..ResolveRequest::default()
    };
    for count in [1, 300] {
        let resolution = resolve(&scanned.graph, &scanned.config, &change(count));
        assert_eq!(resolution.affected.len(), count);
        assert_eq!(resolution.waves.len(), count, "each stack reads the one before it");
    }
}

#[test]
fn bl_089_a_stack_that_named_itself_or_an_edge_that_was_switched_off_was_a_cycle() {
    let files = reader_of_net(&remote_state("\"net.tfstate\""))
        .with("stacks/app/.stackorder.yaml", "ignore_inferred: [stacks/net]\n")
        .with("stacks/net/.stackorder.yaml", "depends_on: [stacks/app]\n");
    let graph = scanned(&files);
    assert_eq!(edges(&graph), ["stacks/net depends_on stacks/app"]);
    let told = warnings(&graph);
    assert!(told.iter().any(|line| line.contains("ignore_inferred drops the edge")), "{told:?}");

    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", S3)
        .with("stacks/a/.stackorder.yaml", "depends_on: [stacks/a]\n")
        .with("stacks/b/main.tf", S3);
    let graph = scanned(&files);
    assert_eq!(edges(&graph), Vec::<String>::new());
    assert_eq!(warnings(&graph), ["stacks/a/.stackorder.yaml: stacks/a depends on itself; the entry is dropped"]);
}
