//! The repository's own scripts around plan and apply (spec 10 §11).

use std::fs;
use std::path::{Path, PathBuf};

/// When a hook runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    PrePlan,
    PostPlan,
    PreApply,
    PostApply,
}

impl Hook {
    pub fn name(self) -> &'static str {
        match self {
            Hook::PrePlan => "pre-plan",
            Hook::PostPlan => "post-plan",
            Hook::PreApply => "pre-apply",
            Hook::PostApply => "post-apply",
        }
    }

    /// The script; `None` when the repository has none. One that cannot be executed is an error, never a skip.
    pub fn find(self, root: &Path) -> Result<Option<PathBuf>, String> {
        let name = format!(".stackorder/hooks/{}.sh", self.name());
        let path = root.join(&name);
        match fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if path.is_symlink() {
                    Err(format!("{name}: the link dangles"))
                } else {
                    Ok(None)
                }
            }
            Err(error) => Err(format!("{name}: {error}")),
            Ok(found) if !found.is_file() => Err(format!("{name} is not a file")),
            Ok(found) if !is_executable(&found) => {
                Err(format!("{name} is not executable: run `git update-index --chmod=+x {name}` and commit"))
            }
            Ok(_) => Ok(Some(path)),
        }
    }
}

#[cfg(unix)]
fn is_executable(found: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    found.permissions().mode() & 0o111 != 0
}

/// Windows has no such bit.
#[cfg(not(unix))]
fn is_executable(_found: &fs::Metadata) -> bool {
    true
}
