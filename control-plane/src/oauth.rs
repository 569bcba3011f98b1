//! Asks authorization servers for tokens of remote tools: what protects a tool's endpoint (RFC 9728), where that
//! server's endpoints are (RFC 8414, `OpenID` Connect Discovery), and the grants themselves (OAuth 2.1; `oauth2`).
//!
//! Every URL is `https`; those of this machine are asked only for a tool on this machine, or when a person named them.
//! No redirect is followed; answers are bounded. What is asked with, and what is answered, is never in an error or a
//! log.

use std::fmt;
use std::time::Duration;

use domain::origin::{AddressClass, Origin, class_of_host};
use futures::future::BoxFuture;
use oauth2::basic::{BasicClient, BasicErrorResponseType};
use oauth2::{
    AsyncHttpClient, AuthType, AuthUrl, AuthorizationCode, ClientId, ClientSecret, CsrfToken, EndpointNotSet,
    EndpointSet, HttpRequest, HttpResponse, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RefreshToken,
    RequestTokenError, Scope, TokenResponse as _, TokenUrl,
};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::vault::Secret;

/// For one answer.
const WITHIN: Duration = Duration::from_secs(10);

/// Bytes of one answer.
const ANSWER_MAX: usize = 1 << 20;

/// Where an authorization server is asked, as found out once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoints {
    /// Its issuer.
    pub issuer: String,
    /// Tokens.
    pub token: String,
    /// A person's leave.
    pub authorization: Option<String>,
    /// Taking tokens back.
    pub revocation: Option<String>,
    /// Whom tokens are for (RFC 8707).
    pub resource: String,
    /// Whether the client's secret goes in the body, since the server takes it nowhere else.
    #[serde(default)]
    pub secret_in_body: bool,
}

impl Endpoints {
    /// Whether tokens are for a server at this origin.
    pub fn is_for(&self, origin: &str) -> bool {
        let own = Url::parse(&self.resource).ok().as_ref().and_then(Origin::of);
        own.is_some_and(|own| own.to_string() == origin)
    }
}

/// A client of an authorization server.
#[derive(Clone)]
pub struct Client<'a> {
    /// Its id there.
    pub id: &'a str,
    /// What it shows, if anything.
    pub secret: Option<&'a Secret>,
    /// What it asks for.
    pub scopes: &'a [String],
}

impl fmt::Debug for Client<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("id", &self.id).field("scopes", &self.scopes).finish_non_exhaustive()
    }
}

/// Tokens as they were given.
#[derive(Debug)]
pub struct Granted {
    /// Shown to the tool.
    pub access: Secret,
    /// For the next one, if one was given.
    pub refresh: Option<Secret>,
    /// How long the access token is good, if that was said.
    pub expires_in: Option<Duration>,
}

/// Where a person goes, and what is kept until they are back.
#[derive(Debug)]
pub struct Start {
    /// To be opened in a browser.
    pub url: String,
    /// Comes back with them.
    pub state: Secret,
    /// Proves that who asked is who comes back (PKCE, S256).
    pub verifier: Secret,
}

/// Why there is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A person has to do something: the grant is refused, not delayed.
    #[error("{0}")]
    Refused(String),
    /// It may be there the next time.
    #[error("{0}")]
    Passing(String),
}

/// Asks.
#[derive(Debug, Clone)]
pub struct Asker {
    http: reqwest::Client,
}

type Ready = BasicClient<EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointSet>;

impl Asker {
    /// An asker with the system's certificates.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn new() -> reqwest::Result<Self> {
        // The client takes the one of the process; a server has installed it by then.
        rustls::crypto::ring::default_provider().install_default().ok();
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(WITHIN)
            .timeout(WITHIN)
            .user_agent(concat!("pintle/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Self { http })
    }

    /// Finds out where tokens for the server at `resource` are had: what it says of itself when it is asked
    /// without one, else at the well-known places; `issuer` stands in for all of that.
    ///
    /// # Errors
    /// Nothing of use is said there.
    pub async fn discover(&self, resource: &Url, issuer: Option<&str>) -> Result<Endpoints, Error> {
        let reach = Reach { here: issuer.is_some() || is_here(resource) };
        let (issuer, resource) = match issuer {
            Some(issuer) => (issuer.to_owned(), resource.to_string()),
            None => self.protected(resource, reach).await?,
        };
        let issuer = reach.checked(&issuer)?;
        let mut last = None;
        for place in places_of_issuer(&issuer) {
            match self.json::<ServerMetadata>(&place, reach).await {
                Ok(found) => return found.endpoints(&issuer, resource, reach),
                // Whether there is anything cannot be told while one of them does not answer.
                Err(error) if !matches!(last, Some(Error::Passing(_))) => last = Some(error),
                Err(_) => {}
            }
        }
        Err(last.unwrap_or_else(|| Error::Refused(format!("{issuer} says nothing of itself"))))
    }

    /// Who protects a server, and whom tokens for it are for.
    async fn protected(&self, resource: &Url, reach: Reach) -> Result<(String, String), Error> {
        let mut places: Vec<Url> = Vec::new();
        let answer = self.http.get(resource.clone()).send().await;
        let answer = answer.map_err(|error| {
            let origin = resource.origin().ascii_serialization();
            Error::Passing(format!("{origin} does not answer ({})", kind(&error)))
        })?;
        if answer.status() == http::StatusCode::UNAUTHORIZED {
            let said = answer.headers().get(http::header::WWW_AUTHENTICATE);
            let named = said.and_then(|value| value.to_str().ok()).and_then(resource_metadata);
            let is_own = |place: &Url| place.origin() == resource.origin();
            places.extend(named.and_then(|named| Url::parse(&named).ok()).filter(is_own));
        }
        let path = resource.path().trim_end_matches('/');
        for place in [
            format!("/.well-known/oauth-protected-resource{path}"),
            "/.well-known/oauth-protected-resource".to_owned(),
        ] {
            places.extend(resource.join(&place));
        }
        for place in places {
            let found = match self.json::<ResourceMetadata>(&place, reach).await {
                Ok(found) => found,
                Err(error @ Error::Passing(_)) => return Err(error),
                Err(Error::Refused(_)) => continue,
            };
            let Some(issuer) = found.authorization_servers.into_iter().next() else { continue };
            // Tokens for somebody else would be worth something there.
            let is_own = Url::parse(&found.resource).is_ok_and(|named| named.origin() == resource.origin());
            if !is_own {
                let said = domain::visible::make_visible_up_to(&found.resource, 200);
                return Err(Error::Refused(format!(
                    "{resource} says that it is {said}, which is another server"
                )));
            }
            return Ok((issuer, found.resource));
        }
        // Servers of the older revisions protect themselves.
        Ok((resource.origin().ascii_serialization(), resource.to_string()))
    }

    /// A token by the client's own credentials.
    ///
    /// # Errors
    /// It is refused, or nobody answers.
    pub async fn client_credentials(&self, at: &Endpoints, client: &Client<'_>) -> Result<Granted, Error> {
        let ready = ready(at, client)?;
        let mut request = ready.exchange_client_credentials().add_extra_param("resource", &at.resource);
        for scope in client.scopes {
            request = request.add_scope(Scope::new(scope.clone()));
        }
        granted(request.request_async(self).await, at)
    }

    /// The token after this one.
    ///
    /// # Errors
    /// It is refused, or nobody answers.
    pub async fn refresh(
        &self,
        at: &Endpoints,
        client: &Client<'_>,
        refresh: &Secret,
    ) -> Result<Granted, Error> {
        let ready = ready(at, client)?;
        let refresh = RefreshToken::new(refresh.reveal().to_owned());
        let request = ready.exchange_refresh_token(&refresh).add_extra_param("resource", &at.resource);
        granted(request.request_async(self).await, at)
    }

    /// Where a person gives leave.
    ///
    /// # Errors
    /// The server has no such place.
    pub fn authorize(at: &Endpoints, client: &Client<'_>, redirect: &str) -> Result<Start, Error> {
        let place = at.authorization.as_deref().ok_or_else(|| {
            Error::Refused(format!("{} has no place where a person gives leave", at.issuer))
        })?;
        let place = AuthUrl::new(place.to_owned()).map_err(|_| unusable("authorization", at))?;
        let ready = ready(at, client)?.set_auth_uri(place).set_redirect_uri(redirect_url(redirect)?);
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let mut request = ready
            .authorize_url(CsrfToken::new_random)
            .set_pkce_challenge(challenge)
            .add_extra_param("resource", &at.resource);
        for scope in client.scopes {
            request = request.add_scope(Scope::new(scope.clone()));
        }
        let (url, state) = request.url();
        Ok(Start {
            url: url.to_string(),
            state: Secret::new(state.secret().clone()),
            verifier: Secret::new(verifier.secret().clone()),
        })
    }

    /// The token for the code that a person came back with.
    ///
    /// # Errors
    /// It is refused, or nobody answers.
    pub async fn exchange(
        &self,
        at: &Endpoints,
        client: &Client<'_>,
        (code, verifier, redirect): (&str, &Secret, &str),
    ) -> Result<Granted, Error> {
        let ready = ready(at, client)?.set_redirect_uri(redirect_url(redirect)?);
        let request = ready
            .exchange_code(AuthorizationCode::new(code.to_owned()))
            .set_pkce_verifier(PkceCodeVerifier::new(verifier.reveal().to_owned()))
            .add_extra_param("resource", &at.resource);
        granted(request.request_async(self).await, at)
    }

    /// Takes tokens back, where the server has a place for that; the refresh token ends the others.
    pub async fn revoke(
        &self,
        at: &Endpoints,
        client: &Client<'_>,
        refresh: Option<&Secret>,
        access: Option<&Secret>,
    ) {
        // `oauth2` refuses to do so over http, which a server on this machine has.
        let Some(place) = at.revocation.as_deref().and_then(|place| Url::parse(place).ok()) else { return };
        let (token, kind) = match (refresh, access) {
            (Some(refresh), _) => (refresh, "refresh_token"),
            (None, Some(access)) => (access, "access_token"),
            (None, None) => return,
        };
        let mut request = self.http.post(place);
        let body = {
            let mut form = url::form_urlencoded::Serializer::new(String::new());
            form.append_pair("token", token.reveal()).append_pair("token_type_hint", kind);
            match client.secret {
                Some(secret) if !at.secret_in_body => {
                    // RFC 6749, 2.3.1: both are form-encoded first.
                    let encoded = |text: &str| -> String {
                        url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
                    };
                    request = request.basic_auth(encoded(client.id), Some(encoded(secret.reveal())));
                }
                Some(secret) => {
                    form.append_pair("client_id", client.id).append_pair("client_secret", secret.reveal());
                }
                None => {
                    form.append_pair("client_id", client.id);
                }
            }
            form.finish()
        };
        let content = (http::header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        let sent = request.header(content.0, content.1).body(body).send().await;
        if !sent.is_ok_and(|answer| answer.status().is_success()) {
            tracing::warn!(issuer = %at.issuer, "a token could not be taken back at its authorization server");
        }
    }

    async fn json<T: for<'de> Deserialize<'de>>(&self, place: &Url, reach: Reach) -> Result<T, Error> {
        reach.checked(place.as_str())?;
        let request = http::Request::get(place.as_str()).body(Vec::new());
        let request = request.map_err(|_| Error::Refused(format!("{place} is no URL")))?;
        let answer = self.ask(request).await.map_err(|fault| Error::Passing(fault.to_string()))?;
        let status = answer.status();
        if status != http::StatusCode::OK {
            let said = format!("{place} answered {}", status.as_u16());
            let is_passing = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
            return Err(if is_passing { Error::Passing(said) } else { Error::Refused(said) });
        }
        serde_json::from_slice(answer.body())
            .map_err(|_| Error::Refused(format!("{place} answered something else than is expected")))
    }

    /// Sends one request, without following it anywhere.
    async fn ask(&self, request: HttpRequest) -> Result<HttpResponse, Unasked> {
        let url = Url::parse(&request.uri().to_string()).map_err(|_| Unasked("it is no URL".to_owned()))?;
        let shown = url.origin().ascii_serialization();
        // Where it is was judged when it was found.
        let (parts, body) = request.into_parts();
        let sent = self.http.request(parts.method, url).headers(parts.headers).body(body).send().await;
        let mut answer =
            sent.map_err(|error| Unasked(format!("{shown} does not answer ({})", kind(&error))))?;
        let mut bytes = Vec::new();
        while let Some(piece) =
            answer.chunk().await.map_err(|error| Unasked(format!("{shown}: {}", kind(&error))))?
        {
            if bytes.len() + piece.len() > ANSWER_MAX {
                return Err(Unasked(format!("{shown} answers more than {ANSWER_MAX} bytes")));
            }
            bytes.extend_from_slice(&piece);
        }
        let mut response = http::Response::new(bytes);
        *response.status_mut() = answer.status();
        *response.headers_mut() = answer.headers().clone();
        Ok(response)
    }
}

impl<'c> AsyncHttpClient<'c> for Asker {
    type Error = Unasked;
    type Future = BoxFuture<'c, Result<HttpResponse, Unasked>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.ask(request))
    }
}

/// Why a request came to no answer.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unasked(String);

/// What protects a server (RFC 9728).
#[derive(Deserialize)]
struct ResourceMetadata {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
}

/// What an authorization server says of itself (RFC 8414).
#[derive(Deserialize)]
struct ServerMetadata {
    issuer: String,
    token_endpoint: String,
    authorization_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    #[serde(default)]
    code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

impl ServerMetadata {
    fn endpoints(self, issuer: &Url, resource: String, reach: Reach) -> Result<Endpoints, Error> {
        // RFC 8414, 3.3: one server does not speak for another.
        if self.issuer.trim_end_matches('/') != issuer.as_str().trim_end_matches('/') {
            let said = domain::visible::make_visible_up_to(&self.issuer, 200);
            return Err(Error::Refused(format!("{issuer} says that it is {said}, which is another issuer")));
        }
        let with_s256 = |methods: &Vec<String>| methods.iter().any(|method| method == "S256");
        if self.code_challenge_methods_supported.as_ref().is_some_and(|methods| !with_s256(methods)) {
            return Err(Error::Refused(format!(
                "{issuer} does not do PKCE with S256, without which nothing is asked"
            )));
        }
        let place = |text: String| reach.checked(&text).map(|url| url.to_string());
        let ways = self.token_endpoint_auth_methods_supported.unwrap_or_default();
        let takes = |way: &str| ways.iter().any(|one| one == way);
        Ok(Endpoints {
            secret_in_body: takes("client_secret_post") && !takes("client_secret_basic"),
            issuer: self.issuer,
            token: place(self.token_endpoint)?,
            authorization: self.authorization_endpoint.map(place).transpose()?,
            revocation: self.revocation_endpoint.map(place).transpose()?,
            resource,
        })
    }
}

fn ready(at: &Endpoints, client: &Client<'_>) -> Result<Ready, Error> {
    let token = TokenUrl::new(at.token.clone()).map_err(|_| unusable("token", at))?;
    let mut basic = BasicClient::new(ClientId::new(client.id.to_owned()));
    if let Some(secret) = client.secret {
        basic = basic.set_client_secret(ClientSecret::new(secret.reveal().to_owned()));
    }
    if at.secret_in_body {
        basic = basic.set_auth_type(AuthType::RequestBody);
    }
    Ok(basic.set_token_uri(token))
}

fn unusable(what: &str, at: &Endpoints) -> Error {
    Error::Refused(format!("{} names a place for {what} that is no URL", at.issuer))
}

fn redirect_url(text: &str) -> Result<RedirectUrl, Error> {
    RedirectUrl::new(text.to_owned()).map_err(|_| Error::Refused(format!("{text} is no URL to come back to")))
}

type Asked = Result<
    oauth2::basic::BasicTokenResponse,
    RequestTokenError<Unasked, oauth2::StandardErrorResponse<BasicErrorResponseType>>,
>;

fn granted(asked: Asked, at: &Endpoints) -> Result<Granted, Error> {
    let issuer = &at.issuer;
    match asked {
        Ok(token) => Ok(Granted {
            access: Secret::new(token.access_token().secret().clone()),
            refresh: token.refresh_token().map(|refresh| Secret::new(refresh.secret().clone())),
            expires_in: token.expires_in(),
        }),
        Err(RequestTokenError::ServerResponse(said)) => {
            use BasicErrorResponseType as Kind;
            // Only the code: descriptions may repeat what was sent.
            let code = domain::visible::make_visible_up_to(said.error().as_ref(), 100);
            let refusal = format!("{issuer} refuses it ({code})");
            match said.error() {
                Kind::InvalidClient
                | Kind::InvalidGrant
                | Kind::InvalidScope
                | Kind::UnauthorizedClient
                | Kind::UnsupportedGrantType => Err(Error::Refused(refusal)),
                // Such as `temporarily_unavailable` and `slow_down`.
                Kind::InvalidRequest | Kind::Extension(_) => Err(Error::Passing(refusal)),
            }
        }
        Err(RequestTokenError::Request(fault)) => Err(Error::Passing(fault.to_string())),
        Err(RequestTokenError::Parse(..) | RequestTokenError::Other(_)) => {
            Err(Error::Passing(format!("{issuer} answered something that is no token")))
        }
    }
}

/// Where secrets may go.
#[derive(Clone, Copy)]
struct Reach {
    /// To this machine too, in the clear as well.
    here: bool,
}

impl Reach {
    fn checked(self, text: &str) -> Result<Url, Error> {
        let shown = domain::visible::make_visible_up_to(text, 200);
        let url = Url::parse(text).map_err(|_| Error::Refused(format!("`{shown}` is no URL")))?;
        let refuse = |why: &str| Err(Error::Refused(format!("{shown} is not asked: {why}")));
        if !url.username().is_empty() || url.password().is_some() {
            return refuse("a URL with a user in it is none of an authorization server");
        }
        if class_of_host(&url).is_err() {
            return refuse("its address is none that anything of ours is at");
        }
        match (is_here(&url), url.scheme()) {
            (true, "http" | "https") if self.here => Ok(url),
            (true, _) => refuse("a server elsewhere has no say about this machine; name it with --issuer"),
            (false, "https") => Ok(url),
            (false, _) => refuse("it is not https"),
        }
    }
}

fn is_here(url: &Url) -> bool {
    matches!(class_of_host(url), Ok(Some(AddressClass::Loopback)))
}

/// Where an issuer says what it has: with its path behind the well-known part (RFC 8414), and before it (`OpenID`).
fn places_of_issuer(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let places = [
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
        format!("{path}/.well-known/openid-configuration"),
    ];
    places.iter().filter_map(|place| issuer.join(place).ok()).collect()
}

/// `resource_metadata` of a challenge (RFC 9728, 5.1).
fn resource_metadata(challenge: &str) -> Option<String> {
    let (_, rest) = challenge.split_once("resource_metadata=")?;
    match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().map(str::to_owned),
        None => rest.split([',', ' ']).next().map(str::to_owned),
    }
}

/// What went wrong, without what was asked.
fn kind(error: &reqwest::Error) -> &'static str {
    if error.is_timeout() {
        "no answer in time"
    } else if error.is_connect() {
        "no connection"
    } else {
        "the connection broke"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_to_https_or_this_machine_and_nowhere_else() {
        let (here, elsewhere) = (Reach { here: true }, Reach { here: false });
        for good in ["https://id.example/token", "https://10.0.0.1/token"] {
            assert!(here.checked(good).is_ok() && elsewhere.checked(good).is_ok(), "{good}");
        }
        for own in ["http://127.0.0.1:1/token", "http://localhost/token", "https://[::1]/token"] {
            assert!(here.checked(own).is_ok() && elsewhere.checked(own).is_err(), "{own}");
        }
        for bad in [
            "http://id.example/token",
            "http://10.0.0.1/token",
            "https://169.254.169.254/token",
            "ftp://id.example",
            "https://me:pw@id.example/",
            "nothing",
            "",
        ] {
            assert!(here.checked(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_challenge_names_where_the_server_describes_itself() {
        let named = resource_metadata(
            r#"Bearer realm="x", resource_metadata="https://a.example/.well-known/x", scope="y""#,
        );
        assert_eq!(named.as_deref(), Some("https://a.example/.well-known/x"));
        assert_eq!(
            resource_metadata("Bearer resource_metadata=https://a.example/x, a=b").as_deref(),
            Some("https://a.example/x")
        );
        assert_eq!(resource_metadata("Bearer"), None);
    }

    #[test]
    fn an_issuer_describes_itself_at_three_places() {
        let places = places_of_issuer(&Url::parse("https://id.example/tenant").unwrap());
        let places: Vec<&str> = places.iter().map(Url::as_str).collect();
        assert_eq!(
            places,
            [
                "https://id.example/.well-known/oauth-authorization-server/tenant",
                "https://id.example/.well-known/openid-configuration/tenant",
                "https://id.example/tenant/.well-known/openid-configuration",
            ]
        );
    }

    #[test]
    fn a_server_that_speaks_for_another_or_without_pkce_is_not_asked() {
        let metadata = |issuer: &str, methods: Option<Vec<String>>| ServerMetadata {
            issuer: issuer.to_owned(),
            token_endpoint: "https://id.example/token".to_owned(),
            authorization_endpoint: None,
            revocation_endpoint: None,
            code_challenge_methods_supported: methods,
            token_endpoint_auth_methods_supported: Some(vec!["client_secret_post".to_owned()]),
        };
        let issuer = Url::parse("https://id.example/").unwrap();
        let reach = Reach { here: false };
        let found = |one: ServerMetadata| one.endpoints(&issuer, "https://mcp.example/".to_owned(), reach);
        let here = ServerMetadata {
            token_endpoint: "http://127.0.0.1/token".to_owned(),
            ..metadata("https://id.example", None)
        };
        assert!(found(here).is_err());
        let good = found(metadata("https://id.example", None)).unwrap();
        assert!(
            good.secret_in_body && good.is_for("https://mcp.example") && !good.is_for("http://mcp.example")
        );
        assert!(found(metadata("https://evil.example", None)).is_err());
        assert!(found(metadata("https://id.example", Some(vec!["plain".to_owned()]))).is_err());
        assert!(found(metadata("https://id.example", Some(vec!["S256".to_owned()]))).is_ok());
    }
}
