//! Parses event-stream text from pieces of any size.

/// Longest event that is accepted. The server's largest event is far smaller.
const EVENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// One event with a name and data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSentEvent {
    pub name: String,
    pub data: String,
}

/// Collects bytes until an event is complete.
#[derive(Debug, Default)]
pub struct EventReader {
    line: Vec<u8>,
    name: String,
    data: String,
}

impl EventReader {
    /// Takes the next piece and returns the completed events.
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<ServerSentEvent>, String> {
        let mut events = Vec::new();
        let mut parts = piece.split(|byte| *byte == b'\n');
        // The part after the last newline is not a complete line yet.
        let unfinished = parts.next_back().unwrap_or_default();
        for part in parts {
            self.line.extend_from_slice(part);
            let line = std::mem::take(&mut self.line);
            events.extend(self.take_line(&String::from_utf8_lossy(&line)));
        }
        self.line.extend_from_slice(unfinished);
        if self.line.len() + self.data.len() > EVENT_BYTES_MAX {
            return Err("an event is too long".to_owned());
        }
        Ok(events)
    }

    fn take_line(&mut self, line: &str) -> Option<ServerSentEvent> {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.is_empty() {
            let event = ServerSentEvent { name: std::mem::take(&mut self.name), data: std::mem::take(&mut self.data) };
            return (!event.data.is_empty()).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.name = value.to_owned(),
            "data" => {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            // Comments and unused fields.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_survive_every_cut() {
        let text = "event: stdout\ndata: {\"chunk\":\"a\"}\n\n: ping\n\nevent: exit\ndata: {\"exit_code\":0}\n\n";
        for cut in 0..=text.len() {
            let mut reader = EventReader::default();
            let mut events = reader.push(&text.as_bytes()[..cut]).unwrap();
            events.extend(reader.push(&text.as_bytes()[cut..]).unwrap());
            let names: Vec<_> = events.iter().map(|event| event.name.as_str()).collect();
            assert_eq!(names, ["stdout", "exit"], "cut at {cut}");
            assert_eq!(events[1].data, "{\"exit_code\":0}");
        }
    }
}
