//! Bytes as tools really send them: banners, BOMs, half characters, endless numbers, floods.

use serde_json::{Value, json};
use tools::{Error, Tool};

use super::support::{Stage, call, chain, python, raw, say, server, text, value};

fn case(name: &str) -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Case C19, stdio.
#[tokio::test]
async fn bytes_around_the_messages_do_no_harm() {
    for row in case("C19-framing.json")["stdio"].as_array().unwrap() {
        let id = row["id"].as_str().unwrap();
        let stage = Stage::new();
        let mut spec = stage.python(json!({"replay": row["stdout"]}));
        if matches!(id, "utf16-output" | "pretty-printed") {
            spec.limits.start = std::time::Duration::from_millis(1500);
        }
        let tool = match stage.start_spec(spec).await {
            Ok(tool) => tool,
            Err(error) => {
                let error = chain(&error);
                let wanted = match id {
                    "utf16-output" => "looks like UTF-16",
                    "pretty-printed" => "one message must be one line",
                    "two-messages-on-one-line" => "trailing characters",
                    "nul-bytes" => "not an object",
                    _ => panic!("{id}: {error}"),
                };
                assert!(error.contains(wanted), "{id}: {error}");
                continue;
            }
        };
        match (id, tool.list().await) {
            ("bad-byte-in-a-listing", Err(error)) => {
                assert!(chain(&error).contains("not UTF-8 at byte"), "{error}");
            }
            ("nul-bytes", Err(error)) => assert!(matches!(error, Error::Unreadable(_)), "{error}"),
            (_, Ok(list)) => assert_eq!(list.list.entries.len(), 1, "{id}"),
            (_, Err(error)) => panic!("{id}: {}", chain(&error)),
        }
        let noise = tool.noise();
        match id {
            "banner-lines" => assert!(noise.lines >= 3 && noise.first.starts_with("=="), "{noise:?}"),
            "banner-that-is-json" => assert_eq!(noise.lines, 5),
            "bad-bytes-in-a-log-line" => assert!(noise.first.contains("\\xE9"), "{noise:?}"),
            _ => {}
        }
    }
}

#[tokio::test]
async fn crlf_and_a_bom_before_each_line_are_fine() {
    let stage = Stage::new();
    let tool = stage.start(json!({"eol": "\r\n", "bom": true})).await;
    assert!(tool.list().await.unwrap().list.complete);
    assert_eq!(tool.noise().lines, 0);
}

/// Case C15.
#[tokio::test]
async fn half_an_emoji_harms_no_other_call_and_reaches_nobody() {
    let stage = Stage::new();
    let tool = stage.start(json!({})).await;
    for row in case("C15-lone-surrogate.json")["lines"].as_array().unwrap() {
        let Some(wanted) = row["expect"]["agent_gets"].as_str() else { continue };
        let line = row["line"].as_str().unwrap();
        let (head, tail) = line.split_once("\"id\":").unwrap();
        let tail = tail.trim_start_matches(|c: char| c.is_ascii_digit());
        let result = say(&tool, &[&format!("{head}\"id\":<ID>{tail}")]).await.unwrap();
        let got = text(&result);
        assert_eq!(got, wanted.trim_end_matches(" (six characters)"), "{line}");
    }
    let listing = r#"{"tools":[{"name":"a","description":"Cut short \ud83d"},{"name":"b"}]}"#;
    let stage = Stage::new();
    let tool = stage.start(json!({"pages": {"<none>": listing}})).await;
    let list = tool.list().await.unwrap().list;
    assert_eq!(&*list.entries[0], r#"{"name":"a","description":"Cut short \ud83d"}"#);
    assert_eq!(list.entries.len(), 2);
}

/// Case C17.
#[tokio::test]
async fn numbers_keep_their_spelling_in_both_directions() {
    for era in ["handshake", "modern"] {
        let stage = Stage::new();
        let tool = stage.start(json!({ "era": era })).await;
        for row in case("C17-big-numbers.json")["calls"].as_array().unwrap() {
            let arguments = row["arguments_text"].as_str().unwrap();
            let result = call(&tool, "echo", arguments).await.unwrap();
            assert_eq!(result.0.get(), row["result_text"].as_str().unwrap());
        }
    }
}

#[tokio::test]
async fn unknown_members_and_kinds_of_content_pass_as_sent() {
    let stage = Stage::new();
    let tool = stage.start(json!({})).await;
    let result = r#"{"content":[{"type":"hologram","x":1E2,"x":null}], "isError" : true,"new":[ ]}"#;
    let line = format!(r#"{{"jsonrpc":"2.0","id":<ID>,"result":{result},"more":1}}"#);
    let got = say(&tool, &[&line]).await.unwrap();
    assert_eq!(got.0.get(), result);
    assert!(got.is_error());
}

#[tokio::test]
async fn arguments_over_several_lines_are_one_message() {
    let stage = Stage::new();
    let tool = stage.start(json!({})).await;
    let result = call(&tool, "echo", "{\n  \"a\":\r\n 1,\n  \"b\": \"x\\ny\"\n}").await.unwrap();
    assert_eq!(value(&result.0)["structuredContent"], json!({"a": 1, "b": "x\ny"}));
}

async fn fails_at_once(tool: &Tool, line: &str, wanted: &str) {
    let error = chain(&say(tool, &[line]).await.expect_err(line));
    assert!(error.contains(wanted), "{error}");
}

/// Case C18.
#[tokio::test]
async fn an_answer_that_no_parser_takes_fails_its_call_at_once() {
    let stage = Stage::new();
    let tool = stage.start(json!({})).await;
    // Waits all the time, so that "the only one waiting" is no way out.
    let other = call(&tool, "stuck", "{}");
    tokio::pin!(other);
    assert!(futures::poll!(&mut other).is_pending());
    for row in case("C18-refused-lines.json")["messages"].as_array().unwrap() {
        let depth = usize::try_from(row["depth"].as_u64().unwrap_or_default()).unwrap();
        let nest = "[".repeat(depth) + &"]".repeat(depth);
        let line = row["line"].as_str().unwrap().replace("\"id\":1", "\"id\":<ID>").replace("<NEST>", &nest);
        match row["id"].as_str().unwrap() {
            "deep-but-fine" => {
                say(&tool, &[&line]).await.unwrap();
            }
            "too-deep" | "too-deep-result" => fails_at_once(&tool, &line, "nested too deeply").await,
            "cut-off" => fails_at_once(&tool, &line, "EOF while parsing").await,
            _ => fails_at_once(&tool, &line, "not JSON at byte").await,
        }
    }
    assert!(futures::poll!(&mut other).is_pending());
    let stage = Stage::new();
    let deep = "[".repeat(4000) + &"]".repeat(4000);
    let page = format!(r#"{{"tools":[{{"name":"deep","default":{deep}}},{{"name":"b"}}]}}"#);
    let tool = stage.start(json!({"pages": {"<none>": page}})).await;
    assert_eq!(tool.list().await.unwrap().list.entries.len(), 2);
}

/// Case C22.
#[tokio::test]
async fn a_message_over_the_limit_fails_its_own_call_and_no_other() {
    const LIMIT: usize = 1 << 20;
    let stage = Stage::new();
    let mut spec = stage.command(&[python(), "-u", &server("C22-flood.py"), "--spam"]);
    spec.limits.message_bytes = LIMIT;
    let tool = stage.start_spec(spec).await.unwrap();
    for name in ["noisy", "noisy_no_newline", "noisy"] {
        call(&tool, name, "{}").await.unwrap();
    }
    let half = call(&tool, "big", &json!({"bytes": LIMIT / 2}).to_string()).await.unwrap();
    assert_eq!(text(&half).len(), LIMIT / 2);
    let arguments = json!({"bytes": 2 * LIMIT}).to_string();
    let big = call(&tool, "big", &arguments);
    let echoes = async {
        for at in 0..10 {
            let echo = call(&tool, "echo", &json!({ "at": at }).to_string()).await.unwrap();
            assert_eq!(text(&echo), format!("{{\"at\": {at}}}"));
        }
    };
    let (big, ()) = tokio::join!(big, echoes);
    let error = big.expect_err("it is over the limit");
    assert!(matches!(error, Error::TooLong { bytes, limit: LIMIT } if bytes > 2 * LIMIT as u64), "{error}");
    let (tail, total) = tool.stderr();
    assert!(total >= 4 * (256 << 10), "{total}");
    // Carriage returns are written out.
    assert!(tail.len() <= 8 * (64 << 10), "{}", tail.len());
    assert!(tool.process().is_some());
}

#[tokio::test]
async fn questions_to_an_agent_that_cannot_be_asked_are_declined_and_pings_answered() {
    let stage = Stage::new();
    let tool = stage.start(json!({})).await;
    let heard: Value = serde_json::from_str(&text(&call(&tool, "ask", "{}").await.unwrap())).unwrap();
    assert_eq!(heard[0]["id"], "mine");
    assert_eq!(heard[0]["error"]["code"], -32603);
    assert_eq!(heard[0]["error"]["message"], "the agent that called cannot be asked anything");
    assert_eq!(heard[1], json!({"jsonrpc": "2.0", "id": "ping", "result": {}}));
}

#[tokio::test]
async fn a_json_rpc_error_is_passed_on_whole() {
    let stage = Stage::new();
    let tool = stage.start(json!({})).await;
    let error = r#"{"code":-32050,"message":"no\u200bway","data":{"n":1e400}}"#;
    let line = format!(r#"{{"jsonrpc":"2.0","id":<ID>,"error":{error}}}"#);
    let Err(Error::Rpc(got)) = say(&tool, &[&line]).await else { panic!("no error") };
    assert_eq!((got.code, &*got.message), (-32050, "no\\u{200B}way"));
    assert_eq!(got.raw.get(), raw(error).get());
}
