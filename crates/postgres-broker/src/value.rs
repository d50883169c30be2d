//! Values of PostgreSQL, in their text form, as JSON without loss. The server is not trusted to
//! send what its types promise: what does not fit becomes a string.

use serde_json::value::RawValue;

use crate::{
    array,
    catalog::{Scalar, TypeShape},
};

/// Appends one value of a row.
pub(crate) fn write(out: &mut Vec<u8>, shape: &TypeShape, text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    match shape.delimiter {
        Some(delimiter) => array::write(out, &text, array::ArrayForm { scalar: shape.scalar, delimiter }),
        None => write_scalar(out, shape.scalar, &text),
    }
}

/// Appends one value that is no array.
pub(crate) fn write_scalar(out: &mut Vec<u8>, scalar: Scalar, text: &str) {
    match (scalar, text) {
        (Scalar::Bool, "t" | "true") => out.extend_from_slice(b"true"),
        (Scalar::Bool, "f" | "false") => out.extend_from_slice(b"false"),
        (Scalar::Number, _) if is_json_number(text) => out.extend_from_slice(text.as_bytes()),
        (Scalar::Json, _) => match serde_json::from_str::<&RawValue>(text) {
            Ok(json) => out.extend_from_slice(json.get().as_bytes()),
            Err(_) => write_text(out, text),
        },
        (Scalar::Bytes, _) => match bytes_as_text(text) {
            Some(decoded) => write_text(out, &decoded),
            None => write_text(out, text),
        },
        (Scalar::Timestamp, _) => match rfc3339(text) {
            Some(instant) => write_text(out, &instant),
            None => write_text(out, text),
        },
        (Scalar::Bool | Scalar::Number | Scalar::Text, _) => write_text(out, text),
    }
}

/// Appends a JSON string.
pub(crate) fn write_text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a string is always JSON, and a vector takes it");
}

/// Whether JSON has this very number. `NaN` and `Infinity` are none.
fn is_json_number(text: &str) -> bool {
    let starts = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    starts && serde_json::from_str::<&RawValue>(text).is_ok_and(|json| json.get().len() == text.len())
}

/// Reads `\x…`. Bytes that are not UTF-8 stay as they are, and so does text that looks like such
/// bytes: no two values have the same form.
fn bytes_as_text(text: &str) -> Option<String> {
    let digits = text.strip_prefix("\\x")?.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = digits.chunks(2).map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?));
    String::from_utf8(pairs.collect::<Option<Vec<u8>>>()?).ok().filter(|text| !text.starts_with("\\x"))
}

/// Turns `2024-01-02 03:04:05.6+05:30` into RFC 3339. Instants that it cannot say (before Christ,
/// after 9999, infinite, with seconds in the zone) are `None`.
fn rfc3339(text: &str) -> Option<String> {
    let (date, rest) = text.split_once(' ')?;
    let split = rest.find(['+', '-']).unwrap_or(rest.len());
    let (time, zone) = rest.split_at(split);
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let fits = has_form(date, "dddd-dd-dd") && has_form(clock, "dd:dd:dd");
    if !fits || fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let zone = match zone {
        "" | "+00" => "Z".to_owned(),
        hours if has_form(&hours[1..], "dd") => format!("{hours}:00"),
        minutes if has_form(&minutes[1..], "dd:dd") => minutes.to_owned(),
        _ => return None,
    };
    Some(format!("{date}T{time}{zone}"))
}

/// Whether the text has the form: `d` is a digit, everything else itself.
fn has_form(text: &str, form: &str) -> bool {
    let same = |(byte, wanted): (u8, u8)| if wanted == b'd' { byte.is_ascii_digit() } else { byte == wanted };
    text.len() == form.len() && text.bytes().zip(form.bytes()).all(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(scalar: Scalar, text: &str, json: &str) {
        let mut out = Vec::new();
        write_scalar(&mut out, scalar, text);
        assert_eq!(String::from_utf8(out).unwrap(), json, "{text}");
    }

    #[test]
    fn values_keep_their_digits() {
        check(Scalar::Number, "9223372036854775807", "9223372036854775807");
        check(Scalar::Number, "1e+20", "1e+20");
        check(Scalar::Number, "-0", "-0");
        check(Scalar::Number, "NaN", "\"NaN\"");
        check(Scalar::Number, "-Infinity", "\"-Infinity\"");
        check(Scalar::Text, "1.10", "\"1.10\"");
        check(Scalar::Bytes, "\\x6869", "\"hi\"");
        check(Scalar::Bytes, "\\xff00", "\"\\\\xff00\"");
        check(Scalar::Bytes, "\\x5c786666", "\"\\\\x5c786666\"");
        check(Scalar::Json, "{\"b\":1.50, \"b\":2}", "{\"b\":1.50, \"b\":2}");
    }

    #[test]
    fn timestamps_are_rfc_3339_if_it_can_say_them() {
        check(Scalar::Timestamp, "2024-01-02 03:04:05", "\"2024-01-02T03:04:05Z\"");
        check(Scalar::Timestamp, "2024-01-02 03:04:05.123456+00", "\"2024-01-02T03:04:05.123456Z\"");
        check(Scalar::Timestamp, "2024-01-02 03:04:05-07", "\"2024-01-02T03:04:05-07:00\"");
        check(Scalar::Timestamp, "2024-01-02 03:04:05+05:30", "\"2024-01-02T03:04:05+05:30\"");
        check(Scalar::Timestamp, "0044-03-15 00:00:00 BC", "\"0044-03-15 00:00:00 BC\"");
        check(Scalar::Timestamp, "infinity", "\"infinity\"");
        check(Scalar::Timestamp, "1850-01-01 00:00:00+00:19:32", "\"1850-01-01 00:00:00+00:19:32\"");
    }

    #[test]
    fn a_server_that_lies_about_types_cannot_break_the_json() {
        for scalar in [Scalar::Bool, Scalar::Number, Scalar::Json, Scalar::Bytes, Scalar::Timestamp] {
            for text in ["1],\"x\":[2", "", "-", "{}}", "\\x", "\\x1", "\\xzz", "2024-01-02 ", "1 ", "ä-ä ä+ä"] {
                let mut out = Vec::new();
                write_scalar(&mut out, scalar, text);
                serde_json::from_slice::<serde_json::Value>(&out).unwrap();
            }
        }
    }
}
