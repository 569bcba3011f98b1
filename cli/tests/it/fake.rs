//! A stand-in for the control plane's API: canned answers, and a record of what was asked.
//!
//! What the real one answers is the end-to-end tests' business; here it is what `pintle` makes of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use serde_json::{Value, json};

/// One request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Asked {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }
}

type Answers = Arc<Mutex<BTreeMap<String, Vec<(u16, Value)>>>>;

/// A running stand-in.
pub(crate) struct Fake {
    url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    answers: Answers,
    _runtime: tokio::runtime::Runtime,
}

impl Fake {
    pub(crate) fn start() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let answers = Answers::default();
        let (seen, said) = (Arc::clone(&asked), Arc::clone(&answers));
        let answer = move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| async move {
            let path = uri.path_and_query().map_or("", |path| path.as_str()).to_owned();
            let headers = headers
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()));
            let one =
                Asked { method: method.to_string(), path, headers: headers.collect(), body: body.to_vec() };
            let (status, value) = next(&said, &format!("{} {}", one.method, uri.path()));
            seen.lock().unwrap().push(one);
            (StatusCode::from_u16(status).unwrap(), axum::Json(value))
        };
        let routes = Router::new().fallback(answer).layer(axum::extract::DefaultBodyLimit::disable());
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        runtime.spawn(async move { axum::serve(listener, routes).await });
        Self { url, asked, answers, _runtime: runtime }
    }

    /// Answers `METHOD /path` so; given again, the answers come in turn and the last one stays.
    pub(crate) fn on(&self, request: &str, status: u16, answer: Value) -> &Self {
        let (method, path) = request.split_once(' ').unwrap();
        let key = format!("{method} /api/v1{path}");
        self.answers.lock().unwrap().entry(key).or_default().push((status, answer));
        self
    }

    /// What was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The only request with this method.
    pub(crate) fn only(&self, method: &str) -> Asked {
        let found: Vec<Asked> = self.asked().into_iter().filter(|one| one.method == method).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        found.into_iter().next().unwrap()
    }

    /// `pintle` that speaks to it.
    pub(crate) fn pintle(&self, data: &Path) -> assert_cmd::Command {
        let mut command = crate::pintle(data);
        command.env("PINTLE_SERVER", &self.url).env("PINTLE_TOKEN", "pat_test_secret");
        command
    }
}

fn next(answers: &Answers, key: &str) -> (u16, Value) {
    let mut answers = answers.lock().unwrap();
    match answers.get_mut(key) {
        Some(left) if left.len() > 1 => left.remove(0),
        Some(left) => left[0].clone(),
        None => {
            (404, json!({"title": "Not Found", "detail": format!("nothing at {key}"), "code": "not_found"}))
        }
    }
}
