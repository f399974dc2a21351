//! Decodes escapes, base64 and hexadecimal digits, and applies the formats of `printf`.

/// Returns the output of `printf` for these arguments. Returns `None` without a format, for an
/// option, and if the format has conversions other than `%s`, `%b`, `%c` and `%q`.
pub(super) fn format_printf(args: &[&str]) -> Option<String> {
    let args = args.strip_prefix(&["--"]).unwrap_or(args);
    let (format, values) = args.split_first()?;
    if format.starts_with('-') {
        return None;
    }
    let format = unescape(format);
    if !format.contains('%') {
        return Some(format);
    }
    let marks = ["%s", "%b", "%c", "%q"];
    if marks.iter().fold(format.clone(), |format, mark| format.replace(mark, "")).contains('%') {
        return None;
    }
    let mut out = String::new();
    let mut values = values.iter();
    loop {
        let mut rest = format.as_str();
        while let Some(at) = rest.find('%') {
            out.push_str(&rest[..at]);
            let value = unescape(values.next().copied().unwrap_or_default());
            let end = if rest[at..].starts_with("%c") {
                value.ceil_char_boundary(1)
            } else {
                value.len()
            };
            out.push_str(&value[..end]);
            rest = &rest[at + 2..];
        }
        out.push_str(rest);
        if values.len() == 0 {
            return Some(out);
        }
    }
}

/// Replaces the escapes `\n`, `\t`, `\\`, `\xHH` and `\OOO` by the characters that they stand for.
pub(super) fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let number = |digits: &str, radix| {
            let end = digits.bytes().take_while(|byte| (*byte as char).is_digit(radix)).count();
            let end = end.min(if radix == 16 { 2 } else { 3 });
            let code = u32::from_str_radix(digits.get(..end)?, radix).ok()?;
            Some((char::from_u32(code)?, end))
        };
        let (shown, used) = match rest.as_bytes().first() {
            Some(b'n') => ('\n', 1),
            Some(b't') => ('\t', 1),
            Some(b'\\') => ('\\', 1),
            Some(b'x') => number(&rest[1..], 16).map_or(('\\', 0), |(c, used)| (c, used + 1)),
            Some(b'0'..=b'7') => number(rest, 8).unwrap_or(('\\', 0)),
            _ => ('\\', 0),
        };
        out.push(shown);
        rest = &rest[used..];
    }
    out.push_str(rest);
    out
}

/// Decodes base64 in either alphabet of RFC 4648, ignoring whitespace and padding. Returns `None`
/// if the text contains any other character.
pub(super) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let (mut bits, mut bit_count, mut out) = (0_u32, 0, vec![]);
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=') {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        bit_count += 6;
        if bit_count >= 8 {
            bit_count -= 8;
            out.push((bits >> bit_count & 0xff) as u8);
        }
    }
    Some(out)
}

/// Decodes pairs of hexadecimal digits into text, ignoring whitespace. Returns `None` if the text
/// contains any other character, or the result is not UTF-8.
pub(super) fn decode_hex(text: &str) -> Option<String> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let bytes =
        digits.chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
    String::from_utf8(bytes.collect::<Option<_>>()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_decodes_the_rfc_4648_vectors() {
        for (text, bytes) in [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v\nYmFy", "foobar")] {
            assert_eq!(decode_base64(text).as_deref(), Some(bytes.as_bytes()), "{text}");
        }
        assert_eq!(decode_base64("a;b"), None);
    }

    #[test]
    fn printf_escapes_are_decoded() {
        assert_eq!(unescape(r"a\nb\x72\155\\c\q"), "a\nbrm\\c\\q");
        assert_eq!(format_printf(&["%s %s\n", "rm", "-rf", "/"]).as_deref(), Some("rm -rf\n/ \n"));
        assert_eq!(format_printf(&["%d", "1"]), None);
    }
}
