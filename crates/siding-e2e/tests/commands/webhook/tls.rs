//! The same over TLS, with an authority that only these tests know.
//!
//! `tls/ca.pem` has signed `server.pem` and `expired.pem`, which are for the address 127.0.0.1 and
//! have the key `server.key`; `other.pem` has signed neither. All but `expired.pem` (2021) hold until
//! the year 2120. Their keys are P-256 and protect nothing; the authorities' own were thrown away.

use std::fs;

use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use siding_e2e::{POLL_DEADLINE, Sandbox};

use super::{Follower, done, id, next, sandbox, server};

const AUTHORITY: &str = include_str!("tls/ca.pem");
const OTHER: &str = include_str!("tls/other.pem");
const SERVER: &str = include_str!("tls/server.pem");
const EXPIRED: &str = include_str!("tls/expired.pem");
const KEY: &str = include_str!("tls/server.key");

fn config(certificate: &str) -> ServerConfig {
    let chain = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).expect("a key");
    ServerConfig::builder_with_provider(default_provider().into())
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(vec![chain], key))
        .expect("they fit")
}

/// Follows with these authorities in place of the machine's.
fn follow(sandbox: &Sandbox, address: &str, authorities: &str) -> Follower {
    let file = sandbox.path("authorities.pem");
    fs::write(&file, authorities).expect("the own directory can be written");
    Follower::with(sandbox, address, &[("SSL_CERT_FILE", &file.display().to_string())])
}

#[test]
fn a_notice_goes_over_tls() {
    let sandbox = sandbox();
    let (address, requests) = server::over_tls(config(SERVER));
    let task = done(&sandbox, &[], "echo one; exit 7");
    let mut follower = follow(&sandbox, &format!("{address}/secret"), AUTHORITY);
    let printed = follower.line();
    let got = next(&requests);
    assert!(got.head.starts_with("post /secret http/1.1\r\n"), "{}", got.head);
    assert_eq!((id(&got.body), &got.body), (task, &printed));
    let said = follower.leave();
    assert!(!said.contains("webhook"), "{said}");
}

/// Nothing is sent to whoever cannot prove who it is; it is not tried again, and said in one line.
#[test]
fn a_wrong_certificate_is_refused() {
    for (certificate, authorities, host, why) in [
        (SERVER, OTHER, "127.0.0.1", "nobody that this machine trusts has signed it; if the"),
        (EXPIRED, AUTHORITY, "127.0.0.1", "it has expired; notice"),
        (SERVER, AUTHORITY, "localhost", "it is for another name; notice"),
    ] {
        let sandbox = sandbox();
        let (address, requests) = server::over_tls(config(certificate));
        let address = address.replace("127.0.0.1", host);
        let task = done(&sandbox, &[], "true");
        let mut follower = follow(&sandbox, &format!("{address}/secret"), authorities);
        assert_eq!(id(&follower.line()), task);
        let said = follower.leave();
        let expected = format!("siding: webhook {address}: its certificate is refused: {why}");
        assert!(said.contains(&expected) && said.contains("was not sent"), "{said}");
        assert_eq!(said.matches("webhook").count(), 1, "{said}");
        assert!(!said.contains("secret") && !said.contains("trying again"), "{said}");
        assert!(requests.try_recv().is_err(), "nothing was sent");
    }
}

/// A server that speaks no TLS is said in one line too.
#[test]
fn a_server_without_tls_is_not_talked_to() {
    let sandbox = sandbox();
    let (address, requests) = server::server([]);
    let task = done(&sandbox, &[], "true");
    let address = address.replace("http:", "https:");
    let mut follower = follow(&sandbox, &address, AUTHORITY);
    assert_eq!(id(&follower.line()), task);
    let said = follower.leave();
    assert_eq!(said.matches("was not sent").count(), 1, "{said}");
    assert!(requests.recv_timeout(POLL_DEADLINE).is_err(), "nothing was sent");
}
