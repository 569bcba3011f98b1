//! What every verb is given: how to print, where things are, which control plane to speak to.

use std::path::PathBuf;

use crate::args::Global;
use crate::client::Client;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::output::shown::quoted;
use crate::place::{Place, token_from};

/// The surroundings of one command.
#[derive(Debug)]
pub(crate) struct Context {
    /// How to print.
    pub out: Output,
    /// Where things are.
    pub place: Place,
    server: Option<String>,
    token_file: Option<PathBuf>,
    program: String,
}

impl Context {
    /// From the global flags.
    ///
    /// # Errors
    /// There is no data folder.
    pub(crate) fn new(global: Global, out: Output) -> Result<Self, Failure> {
        let place = Place::new(global.data.as_deref())?;
        let program = program(&global);
        Ok(Self { out, place, server: global.server, token_file: global.token_file, program })
    }

    /// `pintle` with the flags that say where, for lines that are to be run as they are printed.
    pub(crate) fn program(&self) -> &str {
        &self.program
    }

    /// The control plane that was named, else the one that runs from the data folder.
    ///
    /// # Errors
    /// Neither is known, or there is no token.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let server = match &self.server {
            Some(server) => server.clone(),
            None => self.local_server()?,
        };
        Client::new(&server, self.token()?)
    }

    fn local_server(&self) -> Result<String, Failure> {
        match self.place.running()? {
            Some(running) => Ok(running.people),
            None => Err(Failure::new(
                Exit::Unreachable,
                format!("no control plane has been started from `{}`", self.place.data().display()),
            )
            .remedy("start one with `pintle up`, or name another with --server URL and --token-file FILE")),
        }
    }

    /// The flag's file, else `PINTLE_TOKEN`, else the admin's of the data folder. The last is never sent
    /// to a control plane that was named otherwise: it is another's password.
    fn token(&self) -> Result<String, Failure> {
        if let Some(file) = &self.token_file {
            return token_from(file);
        }
        if let Ok(token) = std::env::var("PINTLE_TOKEN")
            && !token.trim().is_empty()
        {
            return Ok(token.trim().to_owned());
        }
        let local = self.place.running()?.map(|running| running.people);
        if let Some(server) = &self.server
            && local.as_deref() != Some(server.trim_end_matches('/'))
        {
            return Err(Failure::new(Exit::Refused, format!("there is no token for {server}"))
                .remedy("name the file that holds it with --token-file FILE, or set PINTLE_TOKEN"));
        }
        token_from(&self.place.admin_token())
    }
}

/// What came by the environment will be there again; what came by flags has to be repeated.
fn program(global: &Global) -> String {
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.to_string_lossy().into_owned());
    let places = [
        ("--server", "PINTLE_SERVER", global.server.clone()),
        ("--token-file", "PINTLE_TOKEN_FILE", path(&global.token_file)),
        ("--data", "PINTLE_DATA", path(&global.data)),
    ];
    let mut line = "pintle".to_owned();
    for (flag, name, value) in places {
        if let Some(value) = value.filter(|value| std::env::var(name).as_ref() != Ok(value)) {
            line = format!("{line} {flag} {}", quoted(&value));
        }
    }
    line
}
