//! Records of the journal as bytes: length, checksum, then the fields of a write in order.

use ring::digest::{SHA256, digest};
use uuid::Uuid;

use crate::{
    audit::{AuditEvent, kind},
    calls::{CallBody, CallRow, CallState},
    write::Write,
};

/// Bytes before the fields: length and checksum.
const HEAD: usize = 8;

const CALL: u8 = 1;
const END: u8 = 2;
const AUDIT: u8 = 3;

/// Bytes of the parts of a record that can be large.
pub(super) fn bytes(write: &Write) -> usize {
    match write {
        Write::Call(call, body) | Write::CallEnd(call, body) => body.bytes() + call.name.len(),
        Write::Audit(event) => event.details.len(),
        _ => usize::MAX,
    }
}

/// Appends a record.
pub(super) fn encode(write: &Write, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; HEAD]);
    let mut out = Encoder(bytes);
    match write {
        Write::Call(call, body) => out.call(CALL, call, body),
        Write::CallEnd(call, body) => out.call(END, call, body),
        Write::Audit(event) => out.audit(event),
        _ => {}
    }
    let length = u32::try_from(bytes.len() - start - HEAD).unwrap_or(u32::MAX);
    let checksum = checksum(&bytes[start + HEAD..]);
    bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
    bytes[start + 4..start + HEAD].copy_from_slice(&checksum);
}

/// All complete records. What follows the first incomplete one was never acknowledged.
pub(super) fn decode(mut bytes: &[u8]) -> Vec<Write> {
    let mut writes = Vec::new();
    while let Some((write, rest)) = decode_one(bytes) {
        writes.push(write);
        bytes = rest;
    }
    writes
}

fn decode_one(bytes: &[u8]) -> Option<(Write, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let length = u32::from_be_bytes(head.get(..4)?.try_into().ok()?) as usize;
    let (fields, rest) = rest.split_at_checked(length)?;
    if head.get(4..)? != checksum(fields) {
        return None;
    }
    Some((Decoder(fields).write()?, rest))
}

fn checksum(bytes: &[u8]) -> [u8; 4] {
    let mut checksum = [0; 4];
    checksum.copy_from_slice(&digest(&SHA256, bytes).as_ref()[..4]);
    checksum
}

struct Encoder<'a>(&'a mut Vec<u8>);

impl Encoder<'_> {
    fn number(&mut self, number: i64) {
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    fn optional_number(&mut self, number: Option<i64>) {
        self.0.push(u8::from(number.is_some()));
        self.number(number.unwrap_or_default());
    }

    fn text(&mut self, text: &str) {
        self.0.extend_from_slice(&(text.len() as u64).to_be_bytes());
        self.0.extend_from_slice(text.as_bytes());
    }

    fn optional(&mut self, text: Option<&str>) {
        self.0.push(u8::from(text.is_some()));
        self.text(text.unwrap_or_default());
    }

    fn call(&mut self, tag: u8, call: &CallRow, body: &CallBody) {
        self.0.push(tag);
        self.0.extend_from_slice(call.id.as_bytes());
        self.number(call.started_at);
        self.optional_number(call.duration);
        for text in [&call.caller, &call.surface, &call.kind, &call.name] {
            self.text(text);
        }
        self.text(call.state.as_str());
        let texts = [&call.server, &call.tool, &call.rule, &call.approved_by, &call.error, &call.conversation];
        for text in texts.into_iter().chain([&body.arguments, &body.result]) {
            self.optional(text.as_deref());
        }
        for number in [call.argument_bytes, call.result_bytes, call.server_requests] {
            self.number(number);
        }
    }

    fn audit(&mut self, event: &AuditEvent) {
        self.0.push(AUDIT);
        self.number(event.at);
        self.text(event.kind);
        for text in [&event.caller, &event.server, &event.subject] {
            self.optional(text.as_deref());
        }
        self.optional(event.call.map(|call| call.to_string()).as_deref());
        self.text(&event.details);
    }
}

/// Takes fields from the front; `None` if there are none, or they are not what was written.
struct Decoder<'a>(&'a [u8]);

impl Decoder<'_> {
    fn take(&mut self, length: usize) -> Option<&[u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<i64> {
        Some(i64::from_be_bytes(self.take(8)?.try_into().ok()?))
    }

    fn is_present(&mut self) -> Option<bool> {
        Some(self.take(1)? == [1])
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        String::from_utf8(self.take(length)?.to_vec()).ok()
    }

    fn optional(&mut self) -> Option<Option<String>> {
        let is_present = self.is_present()?;
        Some(Some(self.text()?).filter(|_| is_present))
    }

    fn write(&mut self) -> Option<Write> {
        match *self.take(1)?.first()? {
            CALL => self.call().map(|(call, body)| Write::Call(call, body)),
            END => self.call().map(|(call, body)| Write::CallEnd(call, body)),
            AUDIT => self.audit().map(|event| Write::Audit(Box::new(event))),
            _ => None,
        }
    }

    fn call(&mut self) -> Option<(Box<CallRow>, CallBody)> {
        let id = Uuid::from_slice(self.take(16)?).ok()?;
        let started_at = self.number()?;
        let has_duration = self.is_present()?;
        let duration = Some(self.number()?).filter(|_| has_duration);
        let (caller, surface, kind, name) = (self.text()?, self.text()?, self.text()?, self.text()?);
        let state = self.text()?.parse::<CallState>().ok()?;
        let (server, tool, rule) = (self.optional()?, self.optional()?, self.optional()?);
        let (approved_by, error, conversation) = (self.optional()?, self.optional()?, self.optional()?);
        let body = CallBody { arguments: self.optional()?, result: self.optional()? };
        let (argument_bytes, result_bytes, server_requests) = (self.number()?, self.number()?, self.number()?);
        let call = CallRow {
            id,
            started_at,
            duration,
            caller,
            surface,
            kind,
            name,
            server,
            tool,
            state,
            rule,
            approved_by,
            error,
            conversation,
            argument_bytes,
            result_bytes,
            server_requests,
        };
        Some((Box::new(call), body))
    }

    fn audit(&mut self) -> Option<AuditEvent> {
        let (at, kind) = (self.number()?, self.text()?);
        let kind = kind::ALL.into_iter().find(|known| *known == kind)?;
        let (caller, server, subject) = (self.optional()?, self.optional()?, self.optional()?);
        let call = self.optional()?.and_then(|call| call.parse().ok());
        Some(AuditEvent { at, kind, caller, server, subject, call, details: self.text()? })
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{decode, encode};
    use crate::{
        audit::{AuditEvent, kind},
        calls::{CallBody, CallRow, CallState},
        write::Write,
    };

    fn writes() -> [Write; 3] {
        let call = CallRow {
            id: Uuid::now_v7(),
            started_at: 1,
            duration: Some(2),
            caller: "client:editor".to_owned(),
            surface: "gateway".to_owned(),
            kind: "tool".to_owned(),
            name: "files__read".to_owned(),
            server: Some("files".to_owned()),
            tool: Some(String::new()),
            state: CallState::ToolError,
            rule: None,
            approved_by: Some("ada".to_owned()),
            error: Some("not found".to_owned()),
            conversation: None,
            argument_bytes: 3,
            result_bytes: 4,
            server_requests: 5,
        };
        let body = CallBody { arguments: Some("{}".to_owned()), result: None };
        let event = AuditEvent { at: 9, kind: kind::APPROVAL, call: Some(call.id), ..AuditEvent::default() };
        [
            Write::Call(Box::new(CallRow { duration: None, state: CallState::Running, ..call.clone() }), body.clone()),
            Write::CallEnd(Box::new(call), body),
            Write::Audit(Box::new(event)),
        ]
    }

    #[test]
    fn records_are_read_as_they_were_written_up_to_the_first_incomplete_one() {
        let writes = writes();
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for write in &writes {
            encode(write, &mut bytes);
            ends.push(bytes.len());
        }
        assert_eq!(format!("{:?}", decode(&bytes)), format!("{writes:?}"));
        for length in 0..bytes.len() {
            let complete = ends.iter().filter(|end| **end <= length).count();
            assert_eq!(decode(&bytes[..length]).len(), complete, "{length} bytes");
        }
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        assert_eq!(decode(&bytes).len(), 2, "a changed record is not read");
    }
}
