//! Writes a new plugin that works as it is, from a template.
//!
//! The templates' files are part of the program, so that nothing has to be fetched.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use domain::id::PluginName;

/// What a new plugin begins as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    /// An MCP server over stdio in Python's standard library.
    Python,
    /// A remote MCP server's URL.
    Remote,
}

/// A plugin that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// Its name, made from the folder's.
    pub name: PluginName,
    /// The files, in the order to read them.
    pub files: Vec<PathBuf>,
}

/// Why no plugin was written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder holds something.
    #[error("write a plugin into `{}`: the folder is not empty; name a new one", .0.display())]
    NotEmpty(PathBuf),
    /// The folder's name gives no plugin's name.
    #[error("name a plugin after the folder `{}`: use {}", .folder.display(), .fault.rule)]
    Name {
        /// The folder.
        folder: PathBuf,
        /// The rule.
        fault: domain::id::IdFault,
    },
    /// The file system said no.
    #[error("write `{}`", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
}

impl Template {
    /// Every template, in the order to offer them.
    pub const ALL: [Self; 2] = [Self::Python, Self::Remote];

    /// As the command line writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Remote => "remote",
        }
    }

    /// Reads what [`Template::as_str`] wrote.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|template| template.as_str() == text)
    }

    const fn files(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Python => &[
                ("pintle.yaml", include_str!("../templates/python/pintle.yaml")),
                ("server.py", include_str!("../templates/python/server.py")),
            ],
            Self::Remote => &[("pintle.yaml", include_str!("../templates/remote/pintle.yaml"))],
        }
    }
}

/// Writes a new plugin into `dir`, which is made if it is absent. The plugin is named after it.
///
/// # Errors
/// The folder is not empty, its name gives no plugin's name, or the file system says no.
pub fn init(dir: &Path, template: Template) -> Result<Created, Error> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Io { path, source }
    };
    let name = name_of(dir)?;
    fs::create_dir_all(dir).map_err(failed(dir))?;
    if fs::read_dir(dir).map_err(failed(dir))?.next().is_some() {
        return Err(Error::NotEmpty(dir.to_owned()));
    }
    let mut files = Vec::new();
    for (file, text) in template.files() {
        let path = dir.join(file);
        let mut out = OpenOptions::new().write(true).create_new(true).open(&path).map_err(failed(&path))?;
        out.write_all(text.replace("__PLUGIN_NAME__", name.as_str()).as_bytes()).map_err(failed(&path))?;
        files.push(path);
    }
    Ok(Created { name, files })
}

/// The folder's name in lower case, with `-` for what no plugin's name can hold.
fn name_of(dir: &Path) -> Result<PluginName, Error> {
    let full = std::path::absolute(dir).map_err(|source| Error::Io { path: dir.to_owned(), source })?;
    let folder = full.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let plain: String =
        folder.chars().map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' }).collect();
    PluginName::parse(plain.trim_matches('-')).map_err(|fault| Error::Name { folder: dir.to_owned(), fault })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::lint;

    #[test]
    fn a_folder_with_anything_in_it_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let plugin = dir.path().join("mine");
        fs::create_dir(&plugin).unwrap();
        fs::write(plugin.join(".hidden"), "x").unwrap();
        let error = init(&plugin, Template::Python).unwrap_err().to_string();
        assert!(error.contains("not empty"), "{error}");
        assert_eq!(fs::read_dir(&plugin).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_whose_name_no_plugin_can_have_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = init(&dir.path().join("123"), Template::Remote).unwrap_err().to_string();
        assert!(error.contains("beginning with a letter"), "{error}");
        assert!(!dir.path().join("123").exists());
    }

    #[test]
    fn every_template_packs_and_lints_clean() {
        for template in Template::ALL {
            let dir = tempfile::tempdir().unwrap();
            let plugin = dir.path().join("My Plugin_2");
            let created = init(&plugin, template).unwrap();
            assert_eq!(created.name.as_str(), "my-plugin-2");
            assert_eq!(lint(&plugin), []);
            let packed = crate::bundle::pack(&plugin, dir.path(), &mut |_, _| {}).unwrap();
            assert_eq!(packed.version.to_string(), "my-plugin-2@0.1.0");
            assert_eq!(Template::parse(template.as_str()), Some(template));
        }
    }
}
