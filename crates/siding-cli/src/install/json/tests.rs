use super::*;

fn tree() -> Tree {
    Tree::map([("a", Tree::Number(1)), ("b", Tree::texts(["x"]))])
}

fn with(text: &str, dialect: Dialect, way: Way<'_>, key: Option<&str>) -> String {
    let mut json = Json::read(text, dialect).expect(text);
    json.insert(way, key, &tree());
    let put = json.into_text();
    Json::read(&put, dialect).unwrap_or_else(|fault| panic!("{fault}: {put}"));
    put
}

#[test]
fn what_is_put_in_is_laid_out_as_its_neighbours_are() {
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
        assert_eq!(with(before, Dialect::Strict, &[], Some("k")), after);
    }
}

#[test]
fn comments_and_commas_at_the_end_stay_where_they_are() {
    for (before, start, end) in [
        ("{\"z\": 0 // why\n}", "{\"z\": 0, // why\n", "\n}"),
        ("{\n  \"z\": 0, // why\n}", "{\n  \"z\": 0, // why\n  \"k\": {", "\n  },\n}"),
        ("{\n  // only this\n}", "{\n  // only this\n  \"k\": {", "\n}"),
        ("{/* a */ \"z\": 0 /* b */ }", "{/* a */ \"z\": 0, /* b */ \"k\": {", "} }"),
    ] {
        let after = with(before, Dialect::Loose, &[], Some("k"));
        assert!(after.starts_with(start) && after.ends_with(end), "{before:?}: {after:?}");
        let mut json = Json::read(&after, Dialect::Loose).expect("read before");
        json.remove(&[Step::Key("k")]);
        assert_eq!(json.into_text(), before);
    }
}

/// What somebody has put behind ours stays, and so does a comment beside it.
#[test]
fn only_the_member_goes_with_its_comma() {
    for (text, left) in [
        ("[1, 2, 3]", "[1, 3]"),
        ("[1, /* of 1 */ 2, 3]", "[1, /* of 1 */ 3]"),
        ("[1, 2 /* of 2 */, 3]", "[1, /* of 2 */ 3]"),
        ("[1, // of 1\n 2]", "[1 // of 1\n]"),
        ("[1, // of 1\n 2, 3]", "[1, // of 1\n 3]"),
        ("[1, 2,]", "[1,]"),
        ("[1, 2 // of 2\n]", "[1 // of 2\n]"),
    ] {
        let mut json = Json::read(text, Dialect::Loose).expect(text);
        json.remove(&[Step::Index(1)]);
        let after = json.into_text();
        assert_eq!(after, left, "{text:?}");
        Json::read(&after, Dialect::Loose).expect("still JSON");
    }
}

#[test]
fn a_mistake_is_named_with_its_place() {
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
        let fault = Json::read(text, dialect).expect_err(text);
        assert!(fault.what.contains(what), "{text:?}: {fault}");
        assert_eq!((fault.line, fault.column), (line, column), "{text:?}: {fault}");
    }
}

#[test]
fn a_mark_before_the_text_stays_there() {
    let after = with("\u{feff}{\"z\": 0}", Dialect::Strict, &[], Some("k"));
    assert!(after.starts_with("\u{feff}{\"z\": 0, \"k\""), "{after}");
}
