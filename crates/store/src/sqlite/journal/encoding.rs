//! Records of the journal as bytes: length, checksum, then the fields of a write in order.

use uuid::Uuid;

use super::{MAX_FILE, MAX_RECORD};
use crate::{
    audit::{AuditEvent, kind},
    calls::{CallBody, CallRow, CallState, Delivery},
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
        Write::Call(call, body) | Write::CallEnd(call, body) => {
            body.bytes() + call.name.len() + call.error.as_ref().map_or(0, String::len)
        }
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

/// What a file contains after its generation.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    pub(super) writes: Vec<Write>,
    /// Records that are intact and not known here, as those of a later version.
    pub(super) unknown: usize,
    /// Bytes from the first damaged record on.
    pub(super) damaged: usize,
}

/// Reads records up to the end or the first damaged one. An incomplete one at the end was never acknowledged.
pub(super) fn decode(mut bytes: &[u8]) -> Decoded {
    let mut decoded = Decoded::default();
    loop {
        match next(bytes) {
            Next::End => return decoded,
            Next::Damaged => return Decoded { damaged: bytes.len(), ..decoded },
            Next::Record { fields, rest } => {
                match Decoder(fields).write() {
                    Some(write) => decoded.writes.push(write),
                    None => decoded.unknown += 1,
                }
                bytes = rest;
            }
        }
    }
}

enum Next<'a> {
    Record {
        fields: &'a [u8],
        rest: &'a [u8],
    },
    /// There are no bytes, or those of an incomplete record.
    End,
    Damaged,
}

fn next(bytes: &[u8]) -> Next<'_> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() else { return Next::End };
    let [a, b, c, d, expected @ ..] = *head;
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    // The checksum of no bytes is zero, so that zeros would look like records.
    if length == 0 {
        return Next::Damaged;
    }
    match rest.split_at_checked(length) {
        Some((fields, rest)) if checksum(fields) == expected => Next::Record { fields, rest },
        // No record has more bytes: this length was never written.
        None if length <= MAX_FILE && bytes.len() <= MAX_RECORD => Next::End,
        Some(_) | None => Next::Damaged,
    }
}

/// Finds what a crash or a disk damaged; it is no protection against a change on purpose.
fn checksum(bytes: &[u8]) -> [u8; 4] {
    crc32fast::hash(bytes).to_be_bytes()
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
        for number in [call.argument_bytes, call.result_bytes, call.server_requests, call.waited] {
            self.number(number);
        }
        self.optional(call.outcome.map(Delivery::as_str));
        self.0.push(u8::from(call.idempotent));
        self.optional_number(call.prepared);
        self.optional(call.code.as_deref());
        self.0.push(u8::from(call.from_cache));
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
        // Journals of before have no such fields.
        let waited = self.number().unwrap_or_default();
        let outcome = self.optional().flatten().and_then(|word| word.parse().ok());
        let idempotent = self.is_present().unwrap_or_default();
        let is_sent = self.is_present().unwrap_or_default();
        let prepared = self.number().filter(|_| is_sent);
        let code = self.optional().flatten();
        let from_cache = self.is_present().unwrap_or_default();
        let call = CallRow {
            id,
            started_at,
            duration,
            waited,
            prepared,
            caller,
            surface,
            kind,
            name,
            server,
            tool,
            state,
            outcome,
            idempotent,
            from_cache,
            rule,
            approved_by,
            error,
            code,
            conversation,
            argument_bytes,
            result_bytes,
            server_requests,
            task: None,
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
        calls::{CallBody, CallRow, CallState, Delivery},
        write::Write,
    };

    fn writes() -> [Write; 3] {
        let call = CallRow {
            id: Uuid::now_v7(),
            started_at: 1,
            duration: Some(2),
            waited: 6,
            prepared: Some(7),
            caller: "client:editor".to_owned(),
            surface: "gateway".to_owned(),
            kind: "tool".to_owned(),
            name: "files__read".to_owned(),
            server: Some("files".to_owned()),
            tool: Some(String::new()),
            state: CallState::ToolError,
            outcome: Some(Delivery::Answered),
            idempotent: true,
            from_cache: true,
            rule: None,
            approved_by: Some("ada".to_owned()),
            error: Some("not found".to_owned()),
            code: Some("denied".to_owned()),
            conversation: None,
            argument_bytes: 3,
            result_bytes: 4,
            server_requests: 5,
            task: None,
        };
        let body = CallBody { arguments: Some("{}".to_owned()), result: None };
        let event = AuditEvent { at: 9, kind: kind::APPROVAL, call: Some(call.id), ..AuditEvent::default() };
        [
            Write::Call(Box::new(CallRow { duration: None, state: CallState::Running, ..call.clone() }), body.clone()),
            Write::CallEnd(Box::new(call), body),
            Write::Audit(Box::new(event)),
        ]
    }

    /// The records, and where each of them ends.
    fn encoded(writes: &[Write]) -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for write in writes {
            encode(write, &mut bytes);
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    #[test]
    fn records_are_read_as_they_were_written_up_to_an_incomplete_one_at_the_end() {
        let writes = writes();
        let (bytes, ends) = encoded(&writes);
        assert_eq!(format!("{:?}", decode(&bytes).writes), format!("{writes:?}"));
        for length in 0..bytes.len() {
            let complete = ends.iter().filter(|end| **end <= length).count();
            let decoded = decode(&bytes[..length]);
            assert_eq!((decoded.writes.len(), decoded.damaged), (complete, 0), "{length} bytes");
        }
    }

    #[test]
    fn a_changed_byte_is_found_and_the_bytes_from_its_record_on_are_counted() {
        let (bytes, ends) = encoded(&writes());
        for (record, start) in [0, ends[0], ends[1]].into_iter().enumerate() {
            let mut changed = bytes.clone();
            changed[start + 30] ^= 1;
            let decoded = decode(&changed);
            assert_eq!((decoded.writes.len(), decoded.damaged), (record, bytes.len() - start));
        }
        let mut changed = bytes.clone();
        changed[0] = 0xff;
        assert_eq!(decode(&changed).damaged, bytes.len(), "a length that was never written");
    }

    #[test]
    fn zeros_after_the_records_are_damage() {
        let (mut bytes, _) = encoded(&writes());
        bytes.extend_from_slice(&[0; 64]);
        let decoded = decode(&bytes);
        assert_eq!((decoded.writes.len(), decoded.unknown, decoded.damaged), (3, 0, 64));
    }

    #[test]
    fn a_record_of_a_later_version_is_skipped_and_those_after_it_are_read() {
        let [first, _, last] = writes();
        let (mut bytes, _) = encoded(&[first]);
        let later = b"\xffwhat a later version writes";
        bytes.extend_from_slice(&(later.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&super::checksum(later));
        bytes.extend_from_slice(later);
        encode(&last, &mut bytes);
        let decoded = decode(&bytes);
        assert_eq!((decoded.writes.len(), decoded.unknown, decoded.damaged), (2, 1, 0));
    }
}
