//! Tests the reading of output that grows.

use std::io;

use super::*;

/// Returns a follower of all lines, without their colors.
pub(super) fn follow_whole<F: FnMut(&str) -> io::Result<()>>(
    redraw: LineRedraw,
    out: F,
) -> TailFollower<'static, F> {
    TailFollower::new(0, &LineFilter::Everything, ColorHandling::Removed, redraw, out)
}

/// A line that was incomplete when it was shown is continued, or shown again when the task has
/// rewritten it: in the same place on a terminal, on a line of its own in a pipe.
#[test]
fn a_line_that_is_rewritten_after_it_was_shown_is_shown_again() {
    let parts = [&b"\r10%"[..], b"\r20%", b" done", b"\x08\x08\x08\x08ok", b"\n|", b"\x08/\n\nend"];
    for (redraw, expected) in [
        (LineRedraw::NextLine, ["10%", "\n20%", " done", "\n20% ok", "\n|", "\n/\n\nend"]),
        (
            LineRedraw::InPlace,
            ["10%", "\r\x1b[K20%", " done", "\r\x1b[K20% ok", "\n|", "\r\x1b[K/\n\nend"],
        ),
    ] {
        let stage = OutputFixture::new(b"");
        let text = std::cell::RefCell::new(String::new());
        let mut following = follow_whole(redraw, |part: &str| {
            text.borrow_mut().push_str(part);
            Ok(())
        });
        for (bytes, shown) in parts.iter().zip(expected) {
            stage.append(bytes);
            following.emit_new(&stage.dir).unwrap();
            following.show_partial_line().unwrap();
            assert_eq!(text.take(), shown, "{redraw:?}");
        }
        following.show_partial_line().unwrap();
        following.finish().unwrap();
        assert_eq!(text.take(), "", "nothing is shown twice");
    }
}

/// The parts of an overlong line are no rewritten line.
#[test]
fn an_overlong_line_is_shown_once_while_it_grows() {
    let line = "0123456789".repeat(20_000);
    let stage = OutputFixture::new(b"");
    let text = std::cell::RefCell::new(String::new());
    let mut following = follow_whole(LineRedraw::NextLine, |part: &str| {
        text.borrow_mut().push_str(part);
        Ok(())
    });
    for part in line.as_bytes().chunks(30_000) {
        stage.append(part);
        following.emit_new(&stage.dir).unwrap();
        following.show_partial_line().unwrap();
    }
    following.finish().unwrap();
    assert_eq!(text.take(), line);
}

#[test]
fn growing_output_is_followed_in_complete_lines() {
    let stage = OutputFixture::new(b"one\n10%\r");
    let text = std::cell::RefCell::new(String::new());
    let mut following = follow_whole(LineRedraw::NextLine, |part: &str| {
        text.borrow_mut().push_str(part);
        Ok(())
    });
    following.emit_new(&stage.dir).unwrap();
    assert_eq!(text.take(), "one\n");
    stage.append(b"50%\r100%\nPassword: ");
    following.emit_new(&stage.dir).unwrap();
    assert_eq!(text.take(), "100%\n");
    following.show_partial_line().unwrap();
    assert_eq!(text.take(), "Password: ");
    stage.append(b"\nlast");
    following.emit_new(&stage.dir).unwrap();
    let next = following.finish().unwrap();
    assert_eq!((text.take().as_str(), next), ("\nlast", 32));
}
