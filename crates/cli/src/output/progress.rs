//! The progress of a call as one line.

use toolway_wire::json::Raw;

/// Cells of the bar.
const CELLS: usize = 20;

/// The line for one progress notification: a bar if the total is known, else the count.
pub(crate) fn line(params: &Raw) -> String {
    let [progress, total, message] = params.fields(["progress", "total", "message"]);
    let spelled = |number: &Option<Raw>| number.as_ref().map(ToString::to_string).unwrap_or_default();
    let message = message.as_ref().and_then(Raw::as_str).unwrap_or_default().into_owned();
    let number = |raw: &Option<Raw>| raw.as_ref().and_then(Raw::as_f64);
    match (number(&progress), number(&total)) {
        (Some(done), Some(all)) if 0.0 < all => {
            format!("{} {}/{} {message}", bar(done / all), spelled(&progress), spelled(&total))
        }
        _ => format!("{} {message}", spelled(&progress)),
    }
}

fn bar(part: f64) -> String {
    // Clamped, because the server may send any number.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the number of cells")]
    let filled = (part.clamp(0.0, 1.0) * CELLS as f64) as usize;
    format!("[{}{}]", "#".repeat(filled), ".".repeat(CELLS - filled))
}

#[cfg(test)]
mod tests {
    use toolway_wire::json::Raw;

    use super::line;

    #[test]
    fn progress_is_a_bar_if_the_total_is_known() {
        let line = |text: &str| line(&Raw::parse(text.to_owned()).unwrap());
        assert_eq!(line(r#"{"progress":5,"total":10,"message":"half"}"#), "[##########..........] 5/10 half");
        assert_eq!(line(r#"{"progress":7}"#), "7 ");
        assert_eq!(line(r#"{"progress":1e300,"total":-3}"#), "1e300 ");
        assert_eq!(line(r#"{"progress":99,"total":3}"#), "[####################] 99/3 ");
    }
}
