//! Failures as RFC 9457 problems: one type in, one place that writes them.
//!
//! Handlers answer with a [`Problem`]; [`render`] is the outermost layer, gives each request an id
//! and writes whatever failed as `application/problem+json`, also what axum itself refused.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use domain::visible::make_visible;
use serde_json::json;

use crate::operation::{Code, Error, Refused};
use crate::store;

/// Bytes of what axum says when it refuses something: a sentence.
const TEXT_MAX: usize = 4 * 1024;

/// The id of a request: in its answer's `x-request-id`, in problems, in the audit log and the log.
#[derive(Debug, Clone)]
pub(super) struct RequestId(pub(super) String);

/// What went wrong, for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    remedy: Option<String>,
}

impl Problem {
    /// A rule that the request breaks.
    pub(super) fn of(code: Code, detail: impl Into<String>) -> Self {
        Self::from(Refused { code, detail: detail.into(), remedy: None })
    }

    /// The same with what to do about it.
    pub(super) fn with_remedy(code: Code, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::from(Refused { code, detail: detail.into(), remedy: Some(remedy.into()) })
    }
}

impl Problem {
    /// What was to be written has no room. Names the file or the database.
    fn disk_full(error: &Error) -> Self {
        tracing::error!(error = %Chain(error), "the disk is full");
        Self {
            status: StatusCode::INSUFFICIENT_STORAGE,
            code: "disk_full",
            detail: format!("the control plane's disk is full: it failed to {error}; nothing was changed"),
            remedy: Some("make room on the server's disk, then try again".to_owned()),
        }
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        let Refused { code, detail, remedy } = refused;
        Self { status: status(code), code: code.as_str(), detail, remedy }
    }
}

impl From<store::Error> for Problem {
    fn from(error: store::Error) -> Self {
        Self::from(Error::Store(error))
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(refused) => Self::from(*refused),
            Error::Store(store::Error::Full { .. }) => Self::disk_full(&error),
            Error::Folder { ref source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
                Self::disk_full(&error)
            }
            Error::Store(error) if error.is_passing() => {
                tracing::warn!(error = %Chain(&error), "the database cannot be reached");
                let outcome = if error.is_unsure() {
                    "whether it was done is not known"
                } else {
                    "nothing was changed"
                };
                Self {
                    status: StatusCode::SERVICE_UNAVAILABLE,
                    code: "store_unavailable",
                    detail: format!("the control plane failed to {error}; {outcome}"),
                    remedy: Some("try again; if it stays, look at the server's log and disk".to_owned()),
                }
            }
            Error::Store(_) | Error::Folder { .. } => {
                tracing::error!(error = %Chain(&error), "a request failed");
                Self {
                    status: StatusCode::INTERNAL_SERVER_ERROR,
                    code: "internal",
                    detail: "the control plane failed; nothing was changed. The server's log says why"
                        .to_owned(),
                    remedy: None,
                }
            }
        }
    }
}

const fn status(code: Code) -> StatusCode {
    match code {
        Code::NotFound | Code::NotAssigned | Code::NoOrphan => StatusCode::NOT_FOUND,
        Code::Invalid | Code::ArchiveDiffers => StatusCode::BAD_REQUEST,
        Code::BadBundle | Code::KindNotBuilt => StatusCode::UNPROCESSABLE_ENTITY,
        Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::VersionDiffers
        | Code::ToolTaken
        | Code::ApprovalStale
        | Code::ConnectionRefused
        | Code::InRollout
        | Code::RolloutDiffers
        | Code::RolledBack
        | Code::NotAdoptable
        | Code::StandingDiffers => StatusCode::CONFLICT,
        Code::JoinRefused
        | Code::NodeEvicted
        | Code::NodeBanned
        | Code::NodeQuarantined
        | Code::RenewalOver
        | Code::FourEyes
        | Code::Denied => StatusCode::FORBIDDEN,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
    }
}

/// Carries the problem to [`render`], which knows the request's id.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Gives the request an id and writes every failure as a problem.
pub(super) async fn render(mut request: Request, next: Next) -> Response {
    let id = uuid::Uuid::now_v7().to_string();
    request.extensions_mut().insert(RequestId(id.clone()));
    let mut response = next.run(request).await;
    if response.status().is_client_error() || response.status().is_server_error() {
        response = write(response, &id).await;
    }
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("x-request-id", id);
    }
    response
}

async fn write(mut response: Response, id: &str) -> Response {
    let status = response.status();
    let problem = match response.extensions_mut().remove::<Problem>() {
        Some(problem) => problem,
        None => of_foreign(&mut response).await,
    };
    let body = json!({
        "type": "about:blank",
        "title": status.canonical_reason().unwrap_or("Failure"),
        "status": status.as_u16(),
        "detail": make_visible(&problem.detail),
        "code": problem.code,
        "remedy": problem.remedy.as_deref().map(make_visible),
        "request_id": id,
    });
    let mut written = (status, body.to_string()).into_response();
    written.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if status == StatusCode::UNAUTHORIZED {
        written.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    written
}

/// What axum refused says why in plain text; what panicked says nothing.
async fn of_foreign(response: &mut Response) -> Problem {
    let status = response.status();
    let body = std::mem::replace(response.body_mut(), Body::empty());
    let text = to_bytes(body, TEXT_MAX).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let (code, detail) = match status {
        StatusCode::PAYLOAD_TOO_LARGE => (Code::TooLarge.as_str(), text),
        _ if status.is_server_error() => {
            ("internal", "the control plane failed. The server's log says why".to_owned())
        }
        _ => (Code::Invalid.as_str(), text),
    };
    Problem { status, code, detail, remedy: None }
}

/// For paths that are none.
pub(super) async fn no_such_path(uri: Uri) -> Problem {
    let path: String = uri.path().chars().take(200).collect();
    Problem::of(Code::NotFound, format!("there is nothing at {path}"))
}

/// For methods that a path does not have.
pub(super) async fn no_such_method(method: Method, uri: Uri) -> Problem {
    let path: String = uri.path().chars().take(200).collect();
    Problem::of(Code::MethodNotAllowed, format!("{path} has no {method}"))
}

/// An error with its sources, once.
struct Chain<'a>(&'a dyn std::error::Error);

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}
