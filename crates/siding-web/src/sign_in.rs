//! Signing in: a link that works once gives a browser its cookie.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, header};
use siding_core::sys;

/// Maximum number of signed-in browsers. One more signs out the browser that signed in first.
const MAX_BROWSERS: usize = 32;
/// Maximum number of links that were printed and not used. One more makes the oldest link invalid.
const MAX_OPEN_LINKS: usize = 4;
/// The path of the sign-in link.
pub(crate) const SIGN_IN_PATH: &str = "/sign-in";

/// The open sign-in links and the signed-in browsers of a server. Both end with the server.
pub(crate) struct SignIn {
    /// The port of the server, which is part of the cookie's name: servers at other ports of the
    /// host receive the cookie too, and must not replace it.
    port: u16,
    state: Mutex<SignInState>,
}

#[derive(Default)]
struct SignInState {
    open_codes: VecDeque<String>,
    browsers: VecDeque<String>,
}

impl SignIn {
    /// Creates a server's sign-in state without open links.
    pub(crate) fn new(port: u16) -> Self {
        Self { port, state: Mutex::default() }
    }

    /// Returns a new link to the server at `origin`, such as `http://127.0.0.1:7000`. The link works
    /// once.
    ///
    /// # Errors
    ///
    /// The error of getrandom(2).
    pub(crate) fn create_link(&self, origin: &str) -> io::Result<String> {
        let code = random_text()?;
        let mut state = self.lock();
        push_bounded(&mut state.open_codes, code.clone(), MAX_OPEN_LINKS);
        Ok(format!("{origin}{SIGN_IN_PATH}?code={code}"))
    }

    /// Exchanges the code of a link for the value of a `Set-Cookie` header. `None` if the code is
    /// unknown or was used.
    ///
    /// # Errors
    ///
    /// The error of getrandom(2). The code then stays valid.
    pub(crate) fn redeem(&self, code: &str) -> io::Result<Option<String>> {
        let mut state = self.lock();
        let Some(index) = state.open_codes.iter().position(|open| is_equal(open, code)) else {
            return Ok(None);
        };
        let secret = random_text()?;
        state.open_codes.remove(index);
        push_bounded(&mut state.browsers, secret.clone(), MAX_BROWSERS);
        Ok(Some(format!("{}={secret}; Path=/; HttpOnly; SameSite=Strict", self.cookie_name())))
    }

    /// Returns whether a request has the cookie of a signed-in browser.
    pub(crate) fn is_signed_in(&self, headers: &HeaderMap) -> bool {
        let name = self.cookie_name();
        let cookies =
            headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut given = cookies
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(given, _)| *given == name);
        let state = self.lock();
        given.any(|(_, secret)| state.browsers.iter().any(|known| is_equal(known, secret)))
    }

    fn cookie_name(&self) -> String {
        format!("siding-web-{}", self.port)
    }

    fn lock(&self) -> MutexGuard<'_, SignInState> {
        // A panic cannot leave the two lists inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn push_bounded(list: &mut VecDeque<String>, text: String, most: usize) {
    if list.len() >= most {
        list.pop_front();
    }
    list.push_back(text);
}

fn random_text() -> io::Result<String> {
    Ok(format!("{:016x}{:016x}", sys::random_u64()?, sys::random_u64()?))
}

/// Compares a secret in a time that does not depend on how many characters match.
fn is_equal(known: &str, given: &str) -> bool {
    let differing =
        known.bytes().zip(given.bytes()).fold(0, |all, (one, other)| all | (one ^ other));
    known.len() == given.len() && differing == 0
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn code_of(link: &str) -> &str {
        link.strip_prefix("/sign-in?code=").expect("a link")
    }

    fn cookie_headers(set_cookie: &str) -> HeaderMap {
        let pair = set_cookie.split(';').next().expect("a pair");
        let mut headers = HeaderMap::new();
        let value = format!("other=1; {pair}; more=2");
        headers.insert(header::COOKIE, HeaderValue::from_str(&value).expect("a header"));
        headers
    }

    #[test]
    fn a_link_works_once() {
        let sign_in = SignIn::new(7000);
        let link = sign_in.create_link("").expect("a link");
        let cookie = sign_in.redeem(code_of(&link)).expect("random").expect("a cookie");
        assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
        assert!(sign_in.is_signed_in(&cookie_headers(&cookie)));
        assert_eq!(sign_in.redeem(code_of(&link)).expect("random"), None);
    }

    #[test]
    fn a_wrong_code_or_cookie_signs_nobody_in() {
        let sign_in = SignIn::new(7000);
        let link = sign_in.create_link("").expect("a link");
        for code in ["", "0", &code_of(&link)[1..], &format!("{}0", code_of(&link))] {
            assert_eq!(sign_in.redeem(code).expect("random"), None, "{code}");
        }
        assert!(!sign_in.is_signed_in(&HeaderMap::new()));
        for cookie in ["siding-web-7000=", "siding-web-7000=0;"] {
            assert!(!sign_in.is_signed_in(&cookie_headers(cookie)), "{cookie}");
        }
        let cookie = sign_in.redeem(code_of(&link)).expect("random").expect("a cookie");
        let other_port = cookie.replace("7000", "7001");
        assert!(!sign_in.is_signed_in(&cookie_headers(&other_port)));
        assert!(!SignIn::new(7000).is_signed_in(&cookie_headers(&cookie)), "another server");
    }

    #[test]
    fn a_further_link_makes_the_oldest_open_one_invalid() {
        let sign_in = SignIn::new(7000);
        let first = sign_in.create_link("").expect("a link");
        for _ in 0..MAX_OPEN_LINKS {
            let _last = sign_in.create_link("").expect("a link");
        }
        assert_eq!(sign_in.redeem(code_of(&first)).expect("random"), None);
    }
}
