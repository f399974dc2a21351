use super::*;

fn sample_value() -> JsonValue {
    JsonValue::map([("a", JsonValue::Number(1)), ("b", JsonValue::texts(["x"]))])
}

fn insert_sample(text: &str, dialect: Dialect, path: JsonPath<'_>, key: Option<&str>) -> String {
    let mut json = JsonDocument::parse(text, dialect).expect(text);
    json.insert(path, key, &sample_value());
    let put = json.into_text();
    JsonDocument::parse(&put, dialect).unwrap_or_else(|fault| panic!("{fault}: {put}"));
    put
}

#[test]
fn an_inserted_member_follows_the_surrounding_layout() {
    for (before, after) in [
        ("{\"z\": 0}", "{\"z\": 0, \"k\": {\"a\": 1, \"b\": [\"x\"]}}"),
        ("{\"z\":0}", "{\"z\":0,\"k\":{\"a\":1,\"b\":[\"x\"]}}"),
        (
            "{\n\t\"z\": 0\n}\n",
            "{\n\t\"z\": 0,\n\t\"k\": {\n\t\t\"a\": 1,\n\t\t\"b\": [\n\t\t\t\"x\"\n\t\t]\n\t}\n}\n",
        ),
        (
            "{\r\n    \"z\": 0\r\n}",
            "{\r\n    \"z\": 0,\r\n    \"k\": {\r\n        \"a\": 1,\r\n        \"b\": [\r\n            \"x\"\r\n        ]\r\n    }\r\n}",
        ),
        ("{}", "{\n  \"k\": {\n    \"a\": 1,\n    \"b\": [\n      \"x\"\n    ]\n  }\n}"),
    ] {
        assert_eq!(insert_sample(before, Dialect::Strict, &[], Some("k")), after);
    }
}

#[test]
fn trailing_comments_and_commas_stay_in_place() {
    for (before, start, end) in [
        ("{\"z\": 0 // why\n}", "{\"z\": 0, // why\n", "\n}"),
        ("{\n  \"z\": 0, // why\n}", "{\n  \"z\": 0, // why\n  \"k\": {", "\n  },\n}"),
        ("{\n  // only this\n}", "{\n  // only this\n  \"k\": {", "\n}"),
        ("{/* a */ \"z\": 0 /* b */ }", "{/* a */ \"z\": 0, /* b */ \"k\": {", "} }"),
    ] {
        let after = insert_sample(before, Dialect::Loose, &[], Some("k"));
        assert!(after.starts_with(start) && after.ends_with(end), "{before:?}: {after:?}");
        let mut json = JsonDocument::parse(&after, Dialect::Loose).expect("read before");
        json.remove(&[PathStep::Key("k")]);
        assert_eq!(json.into_text(), before);
    }
}

/// A removal keeps the members that another program has added after siding's, and the comments
/// next to the removed member.
#[test]
fn remove_deletes_only_the_member_and_its_comma() {
    for (text, left) in [
        ("[1, 2, 3]", "[1, 3]"),
        ("[1, /* of 1 */ 2, 3]", "[1, /* of 1 */ 3]"),
        ("[1, 2 /* of 2 */, 3]", "[1, /* of 2 */ 3]"),
        ("[1, // of 1\n 2]", "[1 // of 1\n]"),
        ("[1, // of 1\n 2, 3]", "[1, // of 1\n 3]"),
        ("[1, 2,]", "[1,]"),
        ("[1, 2 // of 2\n]", "[1 // of 2\n]"),
    ] {
        let mut json = JsonDocument::parse(text, Dialect::Loose).expect(text);
        json.remove(&[PathStep::Index(1)]);
        let after = json.into_text();
        assert_eq!(after, left, "{text:?}");
        JsonDocument::parse(&after, Dialect::Loose).expect("still JSON");
    }
}

#[test]
fn a_syntax_error_reports_line_and_column() {
    for (text, dialect, line, column, what) in [
        ("{\n  \"a\": 1,\n}", Dialect::Strict, 2, 9, "comma"),
        ("{\n  // x\n}", Dialect::Strict, 2, 3, "comment"),
        ("{\"ä\": x}", Dialect::Strict, 1, 7, "unexpected token"),
        ("\u{feff}{\"ä\": x}", Dialect::Strict, 1, 8, "unexpected token"),
        ("{\"a\": 1 \"b\": 2}", Dialect::Loose, 1, 8, "comma"),
        ("{'a': 1}", Dialect::Loose, 1, 2, ""),
        ("{\"a\": [1}", Dialect::Loose, 1, 9, ""),
        ("{} {}", Dialect::Loose, 1, 4, "more than one"),
        ("// nothing", Dialect::Loose, 1, 11, "no value"),
    ] {
        let fault = JsonDocument::parse(text, dialect).expect_err(text);
        assert!(fault.what.contains(what), "{text:?}: {fault}");
        assert_eq!((fault.line, fault.column), (line, column), "{text:?}: {fault}");
    }
}

#[test]
fn a_byte_order_mark_is_preserved() {
    let after = insert_sample("\u{feff}{\"z\": 0}", Dialect::Strict, &[], Some("k"));
    assert!(after.starts_with("\u{feff}{\"z\": 0, \"k\""), "{after}");
}
