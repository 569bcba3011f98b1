//! The demo tool over stdio: one message a line, until stdin ends.

use std::io;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::watch;

use super::control::Listed;
use super::{Answer, Server, acknowledged, list_changed};

/// Bytes of one message: what MCP's own SDKs read at most.
const MOST_BYTES: u64 = 16 << 20;

/// Answers what comes from `input` until it ends.
///
/// # Errors
/// Reading or writing failed, or a line is longer than a message may be.
pub(crate) async fn serve(
    server: &Server,
    mut listed: watch::Receiver<Listed>,
    input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut input = BufReader::new(input);
    let mut line = Vec::new();
    let mut told = Told::default();
    loop {
        // A read that is interrupted by a change keeps what it has in `line`.
        let left = MOST_BYTES.saturating_sub(line.len() as u64);
        let mut bounded = (&mut input).take(left);
        tokio::select! {
            read = bounded.read_until(b'\n', &mut line) => {
                read?;
                if line.is_empty() {
                    return Ok(());
                }
                if line.last() != Some(&b'\n') && line.len() as u64 >= MOST_BYTES {
                    return Err(io::Error::other(format!("a message is longer than {MOST_BYTES} bytes")));
                }
                let text = String::from_utf8_lossy(&line).into_owned();
                line.clear();
                let now = listed.borrow().clone();
                let messages = told.note(server.answer(text.trim(), &now));
                write(&mut output, messages).await?;
            }
            changed = listed.changed() => {
                changed.map_err(io::Error::other)?;
                write(&mut output, told.changed()).await?;
            }
        }
    }
}

/// Who wants to be told of changes.
#[derive(Default)]
struct Told {
    ready: bool,
    subscriptions: Vec<Value>,
}

impl Told {
    fn note(&mut self, answer: Answer) -> Vec<String> {
        match answer {
            Answer::Nothing => Vec::new(),
            Answer::Message(message) => vec![message],
            Answer::Listen(id) => {
                let first = acknowledged(&id);
                self.subscriptions.push(id);
                vec![first]
            }
            Answer::Ready => {
                self.ready = true;
                Vec::new()
            }
        }
    }

    fn changed(&self) -> Vec<String> {
        let with_id = self.subscriptions.iter().map(|id| list_changed(Some(id)));
        with_id.chain(self.ready.then(|| list_changed(None))).collect()
    }
}

async fn write(output: &mut (impl AsyncWrite + Unpin), messages: Vec<String>) -> io::Result<()> {
    for message in messages {
        output.write_all(message.as_bytes()).await?;
        output.write_all(b"\n").await?;
    }
    output.flush().await
}
