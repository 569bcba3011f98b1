//! A target for a fuzzer: any bytes as a tool's stdout.

use super::lines::{Line, Lines};

/// Bytes of one line that are taken.
const LIMIT: usize = 64;

#[test]
fn lines_are_the_same_however_their_bytes_come_and_bounded() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    bolero::check!().for_each(|bytes: &[u8]| {
        let lines = runtime.block_on(async {
            let mut lines = Lines::new(Dribble(bytes, 0), LIMIT);
            let mut all = Vec::new();
            while let Some(line) = lines.next().await.unwrap() {
                all.push(match line {
                    Line::Whole(line) => Ok(line.to_vec()),
                    Line::TooLong { bytes, .. } => Err(bytes),
                });
            }
            all
        });
        let mut wanted: Vec<_> = bytes.split(|byte| *byte == b'\n').collect();
        if wanted.last().is_some_and(|last| last.is_empty()) {
            wanted.pop();
        }
        let wanted: Vec<Result<Vec<u8>, u64>> = wanted
            .into_iter()
            .map(|line| {
                if line.len() > LIMIT {
                    return Err(line.len() as u64);
                }
                Ok(line.strip_suffix(b"\r").unwrap_or(line).to_vec())
            })
            .collect();
        assert_eq!(lines, wanted);
    });
}

/// Hands out one byte, then two, then three, …
struct Dribble<'a>(&'a [u8], usize);

impl tokio::io::AsyncRead for Dribble<'_> {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        self.1 += 1;
        let size = self.1.min(self.0.len()).min(buffer.remaining());
        let (now, later) = self.0.split_at(size);
        buffer.put_slice(now);
        self.0 = later;
        std::task::Poll::Ready(Ok(()))
    }
}
