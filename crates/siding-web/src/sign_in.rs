//! Signing in: a link that works once gives a browser its cookie and its page key.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, HeaderName, header};
use siding_core::sys;

use crate::access::{self, Credential};

/// Maximum number of signed-in browsers. A further sign-in signs out the browser that signed in
/// first.
const MAX_BROWSERS: usize = 32;
/// Maximum number of unused sign-in links. A further link makes the oldest one invalid.
const MAX_OPEN_LINKS: usize = 4;
/// The path of the sign-in link.
pub(crate) const SIGN_IN_PATH: &str = "/sign-in";
/// The header with the page key.
const PAGE_KEY_HEADER: &str = "siding-page-key";

/// The open sign-in links and the signed-in browsers of a server. Both end with the server.
pub(crate) struct SignIn {
    /// The port of the server, which is part of the cookie's name: servers at other ports of the
    /// host receive the cookie too, and must not replace it.
    port: u16,
    state: Mutex<SignInState>,
}

#[derive(Default)]
struct SignInState {
    open_codes: VecDeque<OpenCode>,
    browsers: VecDeque<SignedInBrowser>,
}

/// The unused code of a link.
struct OpenCode {
    text: String,
    grants_page_key: bool,
}

/// The secrets of a signed-in browser.
struct SignedInBrowser {
    /// The value of the cookie. Browsers send it to the servers at all ports of the host.
    cookie: String,
    /// The page key; `None` if the link did not grant one. A script stores it where only pages of
    /// this server can read it.
    page_key: Option<String>,
}

/// What a browser receives for the code of a link.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SignInGrant {
    /// The value of the header `Set-Cookie`.
    pub(crate) set_cookie: String,
    /// The page key, which no later response contains; `None` if the link does not grant one.
    pub(crate) page_key: Option<String>,
}

impl SignIn {
    /// Creates a server's sign-in state without open links.
    pub(crate) fn new(port: u16) -> Self {
        Self { port, state: Mutex::default() }
    }

    /// Returns a new link to the server at `origin`, such as `http://127.0.0.1:7000`. The link can
    /// be used once. `grants_page_key` says whether only a person can know it.
    ///
    /// # Errors
    ///
    /// The error of getrandom(2).
    pub(crate) fn create_link(&self, origin: &str, grants_page_key: bool) -> io::Result<String> {
        let text = random_text()?;
        let link = format!("{origin}{SIGN_IN_PATH}?code={text}");
        let mut state = self.lock();
        push_bounded(&mut state.open_codes, OpenCode { text, grants_page_key }, MAX_OPEN_LINKS);
        Ok(link)
    }

    /// Exchanges the code of a link for a cookie and a page key. Returns `None` if the code is
    /// unknown or was used.
    ///
    /// # Errors
    ///
    /// The error of getrandom(2). The code then stays valid.
    pub(crate) fn redeem(&self, code: &str) -> io::Result<Option<SignInGrant>> {
        let mut state = self.lock();
        let Some(index) = state.open_codes.iter().position(|open| is_equal(&open.text, code))
        else {
            return Ok(None);
        };
        let (cookie, page_key) = (random_text()?, random_text()?);
        let grants_page_key =
            state.open_codes.remove(index).is_some_and(|open| open.grants_page_key);
        let page_key = grants_page_key.then_some(page_key);
        let grant = SignInGrant {
            set_cookie: format!(
                "{}={cookie}; Path=/; HttpOnly; SameSite=Strict",
                self.cookie_name()
            ),
            page_key: page_key.clone(),
        };
        push_bounded(&mut state.browsers, SignedInBrowser { cookie, page_key }, MAX_BROWSERS);
        Ok(Some(grant))
    }

    /// Returns the credential in the headers of a browser; `None` without the cookie of a signed-in
    /// browser. A page key is valid only with the cookie of the same browser.
    pub(crate) fn find_credential(&self, headers: &HeaderMap) -> Option<Credential> {
        let name = self.cookie_name();
        let cookies =
            headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let given = cookies
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(given, _)| *given == name);
        let header_name = HeaderName::from_static(PAGE_KEY_HEADER);
        let page_key = access::header_text(headers, &header_name).unwrap_or_default();
        let state = self.lock();
        // A server at another port can add a cookie of the same name, so there may be several.
        let signed_in: Vec<&SignedInBrowser> = given
            .filter_map(|(_, value)| {
                state.browsers.iter().find(|known| is_equal(&known.cookie, value))
            })
            .collect();
        let has_page_key = |known: &&SignedInBrowser| {
            known.page_key.as_ref().is_some_and(|known| is_equal(known, &page_key))
        };
        if signed_in.iter().any(has_page_key) {
            Some(Credential::PageKey)
        } else {
            (!signed_in.is_empty()).then_some(Credential::Cookie)
        }
    }

    fn cookie_name(&self) -> String {
        format!("siding-web-{}", self.port)
    }

    fn lock(&self) -> MutexGuard<'_, SignInState> {
        // A panic cannot leave the two lists inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn push_bounded<T>(list: &mut VecDeque<T>, item: T, most: usize) {
    if list.len() >= most {
        list.pop_front();
    }
    list.push_back(item);
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

    fn redeem(sign_in: &SignIn) -> SignInGrant {
        let link = sign_in.create_link("", true).expect("a link");
        sign_in.redeem(code_of(&link)).expect("random").expect("a grant")
    }

    fn browser_headers(set_cookie: &str, page_key: Option<&str>) -> HeaderMap {
        let pair = set_cookie.split(';').next().expect("a pair");
        let mut headers = HeaderMap::new();
        let value = format!("other=1; {pair}; more=2");
        headers.insert(header::COOKIE, HeaderValue::from_str(&value).expect("a header"));
        if let Some(key) = page_key {
            headers.insert(PAGE_KEY_HEADER, HeaderValue::from_str(key).expect("a header"));
        }
        headers
    }

    #[test]
    fn a_link_works_once() {
        let sign_in = SignIn::new(7000);
        let link = sign_in.create_link("", true).expect("a link");
        let grant = sign_in.redeem(code_of(&link)).expect("random").expect("a grant");
        let cookie = grant.set_cookie;
        assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
        let credential = sign_in.find_credential(&browser_headers(&cookie, None));
        assert_eq!(credential, Some(Credential::Cookie));
        assert_eq!(sign_in.redeem(code_of(&link)).expect("random"), None);
    }

    #[test]
    fn a_page_key_is_valid_only_with_the_cookie_of_its_browser() {
        let sign_in = SignIn::new(7000);
        let (first, second) = (redeem(&sign_in), redeem(&sign_in));
        let page_key = first.page_key.clone().expect("the link grants one");
        let other_key = second.page_key.expect("the link grants one");
        assert!(!first.set_cookie.contains(&page_key), "a cookie reaches every port");
        let find = |grant: &SignInGrant, key: &str| {
            sign_in.find_credential(&browser_headers(&grant.set_cookie, Some(key)))
        };
        assert_eq!(find(&first, &page_key), Some(Credential::PageKey));
        for key in ["", "0", &page_key[1..], &other_key] {
            assert_eq!(find(&first, key), Some(Credential::Cookie), "{key}");
        }
        let mut without_cookie = browser_headers(&first.set_cookie, Some(&page_key));
        without_cookie.remove(header::COOKIE);
        assert_eq!(sign_in.find_credential(&without_cookie), None);
        // The page key ends with its browser's cookie.
        for _ in 0..MAX_BROWSERS {
            let _newer = redeem(&sign_in);
        }
        assert_eq!(find(&first, &page_key), None);
    }

    #[test]
    fn a_link_that_other_programs_can_read_grants_no_page_key() {
        let sign_in = SignIn::new(7000);
        let link = sign_in.create_link("", false).expect("a link");
        let grant = sign_in.redeem(code_of(&link)).expect("random").expect("a grant");
        assert_eq!(grant.page_key, None);
        for key in [None, Some(""), Some("0")] {
            let headers = browser_headers(&grant.set_cookie, key);
            assert_eq!(sign_in.find_credential(&headers), Some(Credential::Cookie), "{key:?}");
        }
    }

    #[test]
    fn a_wrong_code_or_cookie_signs_nobody_in() {
        let sign_in = SignIn::new(7000);
        let link = sign_in.create_link("", true).expect("a link");
        for code in ["", "0", &code_of(&link)[1..], &format!("{}0", code_of(&link))] {
            assert_eq!(sign_in.redeem(code).expect("random"), None, "{code}");
        }
        assert_eq!(sign_in.find_credential(&HeaderMap::new()), None);
        for cookie in ["siding-web-7000=", "siding-web-7000=0;"] {
            assert_eq!(sign_in.find_credential(&browser_headers(cookie, None)), None, "{cookie}");
        }
        let cookie = redeem(&sign_in).set_cookie;
        let other_port = browser_headers(&cookie.replace("7000", "7001"), None);
        assert_eq!(sign_in.find_credential(&other_port), None);
        let other_server = SignIn::new(7000);
        assert_eq!(other_server.find_credential(&browser_headers(&cookie, None)), None);
    }

    #[test]
    fn a_further_link_makes_the_oldest_open_one_invalid() {
        let sign_in = SignIn::new(7000);
        let first = sign_in.create_link("", true).expect("a link");
        for _ in 0..MAX_OPEN_LINKS {
            let _last = sign_in.create_link("", true).expect("a link");
        }
        assert_eq!(sign_in.redeem(code_of(&first)).expect("random"), None);
    }
}
