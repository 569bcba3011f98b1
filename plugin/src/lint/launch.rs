//! Commands that fetch a package when they start, and whether they say which version.
//!
//! Without one, a tool changes on the day its registry does, on each node at another time.

/// A package that is fetched in whatever version there is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unpinned {
    /// As the command names it.
    pub(super) package: String,
    /// How to name a version.
    pub(super) remedy: &'static str,
}

/// How launchers write a package with its version.
#[derive(Clone, Copy)]
enum Form {
    /// `name@1.2.3` or `@scope/name@1.2.3`.
    Npm,
    /// `name==1.2.3` or `name@1.2.3`.
    Python,
}

/// Launchers: the words a command begins with, the options that name the package, the form.
const LAUNCHERS: [(&[&str], &[&str], Form); 11] = [
    (&["npx"], &["-p", "--package"], Form::Npm),
    (&["bunx"], &["-p", "--package"], Form::Npm),
    (&["bun", "x"], &["-p", "--package"], Form::Npm),
    (&["pnpx"], &["--package"], Form::Npm),
    (&["npm", "exec"], &["--package"], Form::Npm),
    (&["npm", "x"], &["--package"], Form::Npm),
    (&["pnpm", "dlx"], &["--package"], Form::Npm),
    (&["yarn", "dlx"], &["-p", "--package"], Form::Npm),
    (&["uvx"], &["--from"], Form::Python),
    (&["uv", "tool", "run"], &["--from"], Form::Python),
    (&["pipx", "run"], &["--spec"], Form::Python),
];

/// Options of `uvx` and `pipx` that take the next word.
const WITH_VALUE: [&str; 7] =
    ["--python", "--with", "--index", "--index-url", "--index-strategy", "--registry", "-c"];

/// The package that this command fetches without naming one exact version of it.
pub(super) fn unpinned(command: &[String]) -> Option<Unpinned> {
    let mut words: Vec<&str> = command.iter().map(String::as_str).collect();
    if let Some(first) = words.first_mut() {
        *first = first.rsplit('/').next().unwrap_or(first);
    }
    let (launcher, options, form) =
        LAUNCHERS.into_iter().find(|(launcher, ..)| words.starts_with(launcher))?;
    let package = package(words.get(launcher.len()..)?, options)?;
    let (pinned, remedy) = match form {
        Form::Npm => (is_exact(package, &["@"]), "name one exact version, as in `package@1.2.3`"),
        Form::Python => (is_exact(package, &["==", "@"]), "name one exact version, as in `package==1.2.3`"),
    };
    let is_file = package.starts_with(['.', '/', '$']);
    (!pinned && !is_file).then(|| Unpinned { package: package.to_owned(), remedy })
}

/// The package: what an option names, otherwise the first word that is no option.
fn package<'a>(words: &[&'a str], options: &[&str]) -> Option<&'a str> {
    let mut plain = None;
    let mut rest = words.iter().copied();
    while let Some(word) = rest.next() {
        if let Some((option, value)) = word.split_once('=').filter(|_| word.starts_with("--")) {
            if options.contains(&option) {
                return Some(value);
            }
        } else if options.contains(&word) {
            return rest.next();
        } else if WITH_VALUE.contains(&word) {
            rest.next();
        } else if !word.starts_with('-') {
            plain = Some(word);
            break;
        }
    }
    plain.or_else(|| rest.next())
}

/// Whether a name is followed by one of `signs` and a version that begins and goes on with a number.
fn is_exact(package: &str, signs: &[&str]) -> bool {
    signs.iter().any(|sign| {
        package.rsplit_once(sign).is_some_and(|(name, version)| {
            let numbers =
                version.split(['.', '-', '+']).take_while(|part| part.parse::<u64>().is_ok()).count();
            !name.is_empty() && numbers >= 2
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &str) -> Option<String> {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        unpinned(&words).map(|found| found.package)
    }

    #[test]
    fn a_package_in_whatever_version_is_named() {
        let rows = [
            ("npx pkg", "pkg"),
            ("npx -y pkg@latest", "pkg@latest"),
            ("npx @scope/pkg --stdio", "@scope/pkg"),
            ("npx -y @scope/pkg@^1.2.3", "@scope/pkg@^1.2.3"),
            ("npx -y pkg@1", "pkg@1"),
            ("npx --package=pkg run-it", "pkg"),
            ("npx -p pkg run-it@1.2.3", "pkg"),
            ("/usr/bin/npx pkg", "pkg"),
            ("pnpm dlx pkg@next", "pkg@next"),
            ("npm exec -- pkg", "pkg"),
            ("uvx pkg", "pkg"),
            ("uvx --from pkg>=1.0.0 run-it", "pkg>=1.0.0"),
            ("uvx --python 3.12 pkg", "pkg"),
            ("uv tool run pkg@latest", "pkg@latest"),
            ("pipx run pkg", "pkg"),
        ];
        for (command, package) in rows {
            assert_eq!(check(command).as_deref(), Some(package), "{command}");
        }
    }

    #[test]
    fn an_exact_version_or_another_program_is_not() {
        let good = [
            "npx -y pkg@1.2.3",
            "npx @scope/pkg@1.2.3-rc.1 --flag",
            "npx -p pkg@1.2.3 run-it",
            "uvx pkg==1.2.3",
            "uvx pkg@1.2.3 --local-timezone UTC",
            "uvx --from=pkg==2026.1.14 run-it",
            "npx ./local",
            "node server.js",
            "python3 -m pkg",
            "uv run pkg",
            "npx",
        ];
        for command in good {
            assert_eq!(check(command), None, "{command}");
        }
    }
}
