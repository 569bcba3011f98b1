//! Events of a stream, or one body of JSON, from pieces of any size.

/// What has come and is no whole event yet.
#[derive(Debug, Default)]
pub(super) struct Events {
    line: Vec<u8>,
    data: Option<String>,
    /// A line feed that comes next belongs to the line before.
    after_return: bool,
    body: Vec<u8>,
}

impl Events {
    /// Takes a piece; gives the data of the events that it ends.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut ended = Vec::new();
        for byte in bytes {
            let after_return = std::mem::replace(&mut self.after_return, *byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => {
                    let line = std::mem::take(&mut self.line);
                    ended.extend(self.line_ended(&String::from_utf8_lossy(&line)));
                }
                _ => self.line.push(*byte),
            }
        }
        ended
    }

    fn line_ended(&mut self, line: &str) -> Option<String> {
        if line.is_empty() {
            return self.data.take().filter(|data| !data.is_empty());
        }
        let data = line.strip_prefix("data:")?;
        let data = data.strip_prefix(' ').unwrap_or(data);
        match &mut self.data {
            Some(before) => {
                before.push('\n');
                before.push_str(data);
            }
            None => self.data = Some(data.to_owned()),
        }
        None
    }

    /// Takes a piece of a body of JSON.
    pub(super) fn json(&mut self, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
    }

    /// The body, where it was JSON.
    pub(super) fn rest(&mut self) -> Option<String> {
        let body = std::mem::take(&mut self.body);
        (!body.is_empty()).then(|| String::from_utf8_lossy(&body).into_owned())
    }
}
