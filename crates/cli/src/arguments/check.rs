//! Checks the arguments of a command line before the call is sent, as the host does, with messages for a terminal.

use toolway_host::validation::check::{self, CheckResult};
use toolway_wire::json::Raw;

use crate::{output::clean, schema::Schema};

/// Characters of one message.
const MESSAGE: usize = 240;

/// Checks arguments. References to other documents are never fetched.
pub(crate) fn arguments(schema: &Schema, arguments: &Raw) -> CheckResult {
    match check::arguments(schema.raw(), arguments) {
        CheckResult::Valid => CheckResult::Valid,
        CheckResult::Invalid(problems) => {
            CheckResult::Invalid(problems.iter().map(|problem| clean::line(problem, MESSAGE)).collect())
        }
        CheckResult::Unchecked(why) => CheckResult::Unchecked(clean::line(&why, MESSAGE)),
    }
}
