//! Where the scan is right to differ from Terraform, each with its reason. An entry that is not needed fails the test.

/// By construct: what is different as a whole.
pub const OTHERWISE: &[(&str, &str)] = &[
    // Accepted by Terraform.
    ("source_itself", "Terraform calls it until the path is too long; we say that it calls itself"),
    ("source_itself_by_name", "as source_itself"),
    ("source_trailing_blank", "blanks around a source are trimmed (spec 11 §6.1)"),
    ("source_leading_blank", "as source_trailing_blank"),
    ("heredoc_as_module_source", "as source_trailing_blank, the blank being a newline"),
    ("source_call", "newer versions evaluate a source, and so do we"),
    ("terraform_backend_interpolated", "refused where the backend is configured, which this init leaves out"),
    ("terraform_backend_variable", "as terraform_backend_interpolated"),
    ("bytes_latin_1_in_comment", "Terraform does not look into comments; people do"),
    ("bytes_cut_utf_8", "as bytes_latin_1_in_comment"),
    ("bytes_overlong_utf_8", "Terraform takes these bytes for a character; nobody else does"),
    // Refused by Terraform in another line.
    ("heredoc_template_never_closed", "we name the beginning of the heredoc"),
    // Refused by Terraform alone.
    ("block_nested_on_one_line", "bodies of other blocks are not read (spec 11 §2.1)"),
    ("call_depends_on_string", "the meaning of an argument that no edge depends on"),
    ("call_providers_list", "as call_depends_on_string"),
];

/// By what Terraform calls it: refusals that the scan does not report. Those of one kind have one reason.
pub const NOT_REPORTED: &[(&str, &str)] = &[
    ("Unterminated template string", "reported where the heredoc begins, not at the end of the file"),
    ("Unsupported block type", NEWER),
    ("Unsupported argument", NEWER),
    ("Extraneous JSON object property", NEWER),
    ("Module uses experimental features", NEWER),
    ("Unsupported Terraform Core version", "what runs the stack may be another version"),
    ("Variables not allowed", "OpenTofu evaluates early"),
    ("Both a backend and cloud configuration are present", MEANING),
    ("Duplicate local value definition", MEANING),
    ("Duplicate required providers configuration", MEANING),
    ("Duplicate resource \"terraform_data\" configuration", MEANING),
    ("Duplicate variable declaration", MEANING),
    ("Invalid combination of \"count\" and \"for_each\"", MEANING),
    ("Invalid quoted type constraints", MEANING),
    ("Invalid variable name", MEANING),
    ("Invalid version constraint", MEANING),
    ("Missing base local value definition to override", MEANING),
    ("Missing resource to override", MEANING),
    ("Reserved block type name in module block", MEANING),
    ("Unsupported override", MEANING),
];
const NEWER: &str = "newer versions know more of them (BL-016)";
const MEANING: &str = "well-formed, and no edge depends on what it means: the plan tells";

/// Refusals that Terraform places at the call of a module, where we name its source.
pub const AT_THE_CALL: [&str; 2] = ["Unreadable module directory", "Failed to download module"];

/// Errors of Terraform without a place, by their first words.
pub const UNPLACED: &[(&str, &str)] = &[
    ("Unreadable module directory: Unable to evaluate directory symlink", "a second error names the call"),
    ("Failed to remove local module cache", "a module that calls itself ends at the longest path"),
    ("Terraform encountered problems during initialisation", "the errors themselves follow"),
];

/// Constructs that make Terraform call modules without end; no generated tree holds one.
pub const ENDLESS: [&str; 3] = ["source_itself", "source_itself_by_name", "source_of_a_cycle"];
