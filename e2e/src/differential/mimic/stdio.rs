//! The server over stdio: its node starts a program that carries bytes between its pipes and a socket of ours.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::part::Part;
use super::{Client, Incoming, Voice};
use crate::differential::stage::Stage;
use crate::differential::{Era, Way};

/// Carries bytes between stdin and stdout and the socket, to which it says first which era is wanted.
///
/// # Errors
/// The socket cannot be reached, or breaks.
pub(in crate::differential) async fn pipe(address: SocketAddr, era: Era) -> Result<()> {
    let mut stream = TcpStream::connect(address).await.context("failed to reach the server")?;
    stream.set_nodelay(true)?;
    stream.write_all(format!("{}\n", era.name()).as_bytes()).await?;
    let (mut from, mut to) = stream.into_split();
    let (mut stdin, mut stdout) = (tokio::io::stdin(), tokio::io::stdout());
    let out = async {
        let mut bytes = vec![0; 1 << 16];
        loop {
            let count = tokio::io::AsyncReadExt::read(&mut from, &mut bytes).await?;
            if count == 0 {
                return Ok::<(), std::io::Error>(());
            }
            stdout.write_all(bytes.get(..count).unwrap_or_default()).await?;
            stdout.flush().await?;
        }
    };
    tokio::select! {
        copied = tokio::io::copy(&mut stdin, &mut to) => drop(copied?),
        ended = out => ended?,
    }
    Ok(())
}

/// Serves whoever connects, until it is dropped.
pub(in crate::differential) async fn serve(listener: TcpListener, stage: Arc<Stage>) {
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).ok();
        tokio::spawn(connection(stream, Arc::clone(&stage)));
    }
}

async fn connection(stream: TcpStream, stage: Arc<Stage>) -> Option<()> {
    let (from, mut to) = stream.into_split();
    let mut lines = BufReader::new(from).lines();
    let era = Era::named(&lines.next_line().await.ok()??)?;
    let client = Arc::new(Client::new(&stage, Way::Node, false));
    let (out, mut messages) = mpsc::unbounded_channel::<String>();
    tokio::spawn(async move {
        while let Some(mut message) = messages.recv().await {
            message.push('\n');
            if to.write_all(message.as_bytes()).await.is_err() {
                return;
            }
        }
    });
    while let Ok(Some(line)) = lines.next_line().await {
        let Some(message) = Incoming::read(&line) else {
            tracing::error!("the node wrote a line that is no message: {line}");
            continue;
        };
        let (Some(method), Some(id)) = (&message.method, &message.id) else {
            client.hear(&message);
            continue;
        };
        let play = client.play(&message).filter(|_| method == "tools/call");
        let Some(play) = play else {
            let (kind, value) = client.plain(era, method, message.params());
            out.send(format!(r#"{{"jsonrpc":"2.0","id":{},"{kind}":{value}}}"#, id.get())).ok();
            continue;
        };
        let (client, voice) = (Arc::clone(&client), Voice { out: out.clone(), ends_with_its_stream: false });
        tokio::spawn(async move {
            Part { client: &client, play: &play, era, message: &message, voice: &voice }.perform().await;
        });
    }
    Some(())
}
