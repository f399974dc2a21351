//! Webhooks over TLS, with a certificate authority that only these tests trust. `server.pem` and
//! `expired.pem` in `tls/` are certificates for the address 127.0.0.1 with the key `server.key`,
//! signed by `ca.pem`. `other.pem` is an authority that has signed neither certificate.
//! `expired.pem` was valid until 2021; all others are valid until 2120. The keys are P-256 keys
//! that protect nothing. The private keys of the authorities were deleted.

use std::fs;

use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use siding_e2e::{POLL_DEADLINE, Sandbox};

use super::{Follower, next_request, run_in_background_to_end, sandbox, server, task_id};

const CA_CERTIFICATE: &str = include_str!("tls/ca.pem");
const OTHER_CA_CERTIFICATE: &str = include_str!("tls/other.pem");
const SERVER_CERTIFICATE: &str = include_str!("tls/server.pem");
const EXPIRED_CERTIFICATE: &str = include_str!("tls/expired.pem");
const SERVER_KEY: &str = include_str!("tls/server.key");

fn tls_config(certificate: &str) -> ServerConfig {
    let chain = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(SERVER_KEY.as_bytes()).expect("a key");
    ServerConfig::builder_with_provider(default_provider().into())
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(vec![chain], key))
        .expect("the certificate and the key match")
}

/// Starts a follower that trusts only these certificate authorities.
fn start_follower(sandbox: &Sandbox, address: &str, authorities: &str) -> Follower {
    let file = sandbox.path("authorities.pem");
    fs::write(&file, authorities).expect("test directory");
    Follower::with_env(sandbox, address, &[("SSL_CERT_FILE", &file.display().to_string())])
}

#[test]
fn a_notice_is_posted_over_tls() {
    let sandbox = sandbox();
    let (address, requests) = server::start_tls_server(tls_config(SERVER_CERTIFICATE));
    let task = run_in_background_to_end(&sandbox, &[], "echo one; exit 7");
    let mut follower = start_follower(&sandbox, &format!("{address}/secret"), CA_CERTIFICATE);
    let printed = follower.next_line();
    let got = next_request(&requests);
    assert!(got.head.starts_with("post /secret http/1.1\r\n"), "{}", got.head);
    assert_eq!((task_id(&got.body), &got.body), (task, &printed));
    let stderr = follower.close();
    assert!(!stderr.contains("webhook"), "{stderr}");
}

/// If a server's certificate is not valid, siding sends nothing to the server, does not retry, and
/// reports the reason in one line.
#[test]
fn an_invalid_certificate_is_rejected_and_reported() {
    for (certificate, authorities, host, why) in [
        (
            SERVER_CERTIFICATE,
            OTHER_CA_CERTIFICATE,
            "127.0.0.1",
            "this machine does not trust its issuer; if the",
        ),
        (EXPIRED_CERTIFICATE, CA_CERTIFICATE, "127.0.0.1", "it has expired; notice"),
        (
            SERVER_CERTIFICATE,
            CA_CERTIFICATE,
            "localhost",
            "it was issued for another host name; notice",
        ),
    ] {
        let sandbox = sandbox();
        let (address, requests) = server::start_tls_server(tls_config(certificate));
        let address = address.replace("127.0.0.1", host);
        let task = run_in_background_to_end(&sandbox, &[], "true");
        let mut follower = start_follower(&sandbox, &format!("{address}/secret"), authorities);
        assert_eq!(task_id(&follower.next_line()), task);
        let stderr = follower.close();
        let expected = format!("siding: webhook {address}: its certificate is rejected: {why}");
        assert!(stderr.contains(&expected) && stderr.contains("was not sent"), "{stderr}");
        assert_eq!(stderr.matches("webhook").count(), 1, "{stderr}");
        assert!(!stderr.contains("secret") && !stderr.contains("trying again"), "{stderr}");
        assert!(requests.try_recv().is_err(), "nothing was sent");
    }
}

/// If the server does not use TLS, siding sends no notice to the server and reports the problem in
/// one line.
#[test]
fn a_server_without_tls_receives_no_notice() {
    let sandbox = sandbox();
    let (address, received) = server::start_plaintext_server();
    let task = run_in_background_to_end(&sandbox, &[], "true");
    let mut follower = start_follower(&sandbox, &format!("{address}/secret"), CA_CERTIFICATE);
    assert_eq!(task_id(&follower.next_line()), task);
    let stderr = follower.close();
    assert_eq!(stderr.matches("was not sent").count(), 1, "{stderr}");
    assert!(stderr.contains("it does not speak TLS"), "{stderr}");
    let received = received.recv_timeout(POLL_DEADLINE).expect("the end of the connection");
    let received = String::from_utf8_lossy(&received);
    assert!(!received.contains(&task) && !received.contains("secret"), "{received}");
}
