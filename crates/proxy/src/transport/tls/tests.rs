//! TLS between a client and a server over streams in memory, and each refusal.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::RootCertStore;
use tokio::io::{DuplexStream, duplex};
use tokio::sync::mpsc;

use super::*;

/// Streams in memory: those that are dialled are accepted.
#[derive(Clone)]
struct Memory {
    dialled: mpsc::UnboundedSender<DuplexStream>,
    accepted: Arc<std::sync::Mutex<Option<mpsc::UnboundedReceiver<DuplexStream>>>>,
    size: usize,
}

struct Accepting(mpsc::UnboundedReceiver<DuplexStream>);

impl Accept for Accepting {
    type Link = DuplexStream;

    async fn accept(&mut self) -> io::Result<(DuplexStream, SocketAddr)> {
        let stream = self.0.recv().await.ok_or(ErrorKind::NotConnected)?;
        Ok((stream, at()))
    }
}

impl Memory {
    fn new(size: usize) -> Memory {
        let (dialled, accepted) = mpsc::unbounded_channel();
        Memory { dialled, accepted: Arc::new(std::sync::Mutex::new(Some(accepted))), size }
    }
}

impl Transport for Memory {
    type Link = DuplexStream;
    type Listener = Accepting;

    fn name(&self) -> &'static str {
        "memory"
    }

    fn check(&self, _: &Treatment) -> Result<(), String> {
        Ok(())
    }

    fn set_budgets(&self, _: &[Budget]) -> Result<(), String> {
        Ok(())
    }

    async fn dial(&self, _: SocketAddr, _: &Treatment) -> io::Result<DuplexStream> {
        let (here, there) = duplex(self.size);
        self.dialled.send(there).map_err(io::Error::other)?;
        Ok(here)
    }

    fn listen(&self, _: SocketAddr) -> io::Result<Accepting> {
        Ok(Accepting(self.accepted.lock().unwrap().take().unwrap()))
    }

    fn adopt(&self, _: std::net::TcpListener) -> io::Result<Accepting> {
        self.listen(at())
    }
}

fn at() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 8803))
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn identity(&self, text: &str) -> Identity {
        let file = self.file("server.pem", text);
        Identity::open(&file, &file).unwrap()
    }
}

/// Returns a certificate with its key for `name` until the year `until`, signed by an authority, and the store with that.
fn signed(name: &str, until: i32) -> (String, RootCertStore) {
    let mut authority = CertificateParams::new([]).unwrap();
    let of = format!("authority for {name} until {until}");
    authority.distinguished_name.push(DnType::CommonName, of);
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let root = authority.self_signed(&authority_key).unwrap();
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    params.not_after = date_time_ymd(until, 1, 1);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &Issuer::new(authority, authority_key)).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(root.der().clone()).unwrap();
    (certificate.pem() + &key.serialize_pem(), roots)
}

/// Dials and accepts one connection. Returns both ends after their handshakes.
async fn meet(
    size: usize,
    trust: Trust,
    identity: &Identity,
) -> (io::Result<TlsLink<DuplexStream>>, io::Result<TlsLink<DuplexStream>>) {
    let memory = Memory::new(size);
    let mut listener = Tls::server(memory.clone(), identity.clone()).listen(at()).unwrap();
    let client = Tls::client(memory, trust);
    let accepting = async {
        let (mut link, _) = listener.accept().await?;
        link.prepare().await?;
        Ok(link)
    };
    let how = Treatment::default();
    tokio::join!(client.dial(at(), &how), accepting)
}

async fn refusal(trust: Trust, identity: &Identity) -> String {
    let (client, server) = meet(4096, trust, identity).await;
    assert!(server.is_err());
    client.err().map(|error| error.to_string()).expect("it is refused")
}

#[tokio::test]
async fn a_pinned_server_is_accepted_and_nothing_is_readable_between() {
    let place = Place::new();
    let (text, pin) = new_certificate("server.example").unwrap();
    let identity = place.identity(&text);
    assert_eq!(identity.pin(), pin);
    assert!(text.contains(&pin.to_string()) && pin.to_string().parse::<PublicKeyPin>() == Ok(pin));
    // A server that has replaced its key has two pins for a time. The name does not count.
    let pins = vec![PublicKeyPin([0; 32]), pin];
    let (client, server) = meet(4096, Trust::pinned("192.0.2.1", pins).unwrap(), &identity).await;
    let (mut client, mut server) = (client.unwrap(), server.unwrap());
    client.write_all(b"the destination").await.unwrap();
    client.flush().await.unwrap();
    let mut got = [0; 15];
    server.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"the destination");
    let TlsLink(State::Open(stream)) = &server else { panic!("it is open") };
    assert_eq!(stream.get_ref().1.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
    // The end of one direction leaves the other one.
    client.shutdown().await.unwrap();
    assert_eq!(server.read(&mut got).await.unwrap(), 0);
    server.write_all(b"answer").await.unwrap();
    server.shutdown().await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "answer");
}

#[tokio::test]
async fn the_bytes_between_the_sides_are_encrypted() {
    let place = Place::new();
    let (text, pin) = new_certificate("server.example").unwrap();
    let memory = Memory::new(1 << 16);
    let client = Tls::client(memory.clone(), Trust::pinned("server.example", vec![pin]).unwrap());
    let mut raw = memory.listen(at()).unwrap();
    let identity = place.identity(&text);
    let (near, far) = duplex(1 << 16);
    let server = identity.acceptor().accept(far);
    // Copies the bytes in the middle, and keeps them.
    let middle = tokio::spawn(async move {
        let (mut dialled, _) = raw.accept().await.unwrap();
        let (mut seen, mut near) = (Vec::new(), near);
        let (mut up, mut down) = ([0; 4096], [0; 4096]);
        loop {
            tokio::select! {
                n = dialled.read(&mut up) => match n.unwrap() {
                    0 => return seen,
                    n => { seen.extend_from_slice(&up[..n]); near.write_all(&up[..n]).await.unwrap() }
                },
                n = near.read(&mut down) => match n.unwrap() {
                    0 => return seen,
                    n => dialled.write_all(&down[..n]).await.unwrap(),
                },
            }
        }
    });
    let how = Treatment::default();
    let (client, server) = tokio::join!(client.dial(at(), &how), server);
    let (mut client, mut server) = (client.unwrap(), server.unwrap());
    let secret = b"example.org:443 ".repeat(20);
    client.write_all(&secret).await.unwrap();
    client.shutdown().await.unwrap();
    let mut got = Vec::new();
    server.read_to_end(&mut got).await.unwrap();
    assert_eq!(got, secret);
    drop((client, server));
    let seen = middle.await.unwrap();
    assert!(seen.len() > secret.len() && !seen.windows(11).any(|some| some == &secret[..11]));
}

#[tokio::test]
async fn a_server_with_another_key_is_refused_with_its_pin() {
    let place = Place::new();
    let (text, found) = new_certificate("server.example").unwrap();
    let (_, wanted) = new_certificate("server.example").unwrap();
    let trust = Trust::pinned("server.example", vec![wanted]).unwrap();
    let why = refusal(trust, &place.identity(&text)).await;
    assert!(why.contains("is not the pinned one") && why.contains(&found.to_string()), "{why}");
}

#[tokio::test]
async fn a_server_without_the_private_key_is_refused() {
    // The certificate is public: an attacker has it, but cannot sign with its key.
    let (text, pin) = new_certificate("server.example").unwrap();
    let (other, _) = new_certificate("server.example").unwrap();
    let place = Place::new();
    let mut stolen = place.identity(&text);
    stolen.swap_key(&place.identity(&other));
    let why = refusal(Trust::pinned("server.example", vec![pin]).unwrap(), &stolen).await;
    assert!(
        why.contains("BadSignature") || why.contains("bad signature") || why.contains("signature"),
        "{why}"
    );
}

#[tokio::test]
async fn a_certificate_has_to_be_valid_for_the_name_and_the_time() {
    let place = Place::new();
    let (text, roots) = signed("server.example", 2999);
    let identity = place.identity(&text);
    let trust = Trust::by_roots("server.example", roots.clone()).unwrap();
    let (client, server) = meet(4096, trust, &identity).await;
    assert!(client.is_ok() && server.is_ok());
    let why = refusal(Trust::by_roots("other.example", roots).unwrap(), &identity).await;
    assert!(why.contains("another name") && why.contains("--pin"), "{why}");
    let (text, roots) = signed("server.example", 2020);
    let why =
        refusal(Trust::by_roots("server.example", roots.clone()).unwrap(), &place.identity(&text)).await;
    assert!(why.contains("has expired"), "{why}");
    // An authority that the client does not know, and no authority at all.
    for text in [signed("server.example", 2999).0, new_certificate("server.example").unwrap().0] {
        let trust = Trust::by_roots("server.example", roots.clone()).unwrap();
        let why = refusal(trust, &place.identity(&text)).await;
        assert!(why.contains("no certificate authority of this system") && why.contains("--pin"), "{why}");
    }
}

#[tokio::test]
async fn a_client_never_speaks_without_tls() {
    let (_, pin) = new_certificate("server.example").unwrap();
    let memory = Memory::new(4096);
    let mut listener = memory.listen(at()).unwrap();
    let client = Tls::client(memory, Trust::pinned("server.example", vec![pin]).unwrap());
    for answer in [&b""[..], b"\x01\x02\x22\x63\x00\x00\x00\x00"] {
        let serving = async {
            let (mut link, _) = listener.accept().await.unwrap();
            let mut first = [0; 3];
            link.read_exact(&mut first).await.unwrap();
            assert_eq!(first, [22, 3, 1], "a handshake of TLS, and nothing else");
            link.write_all(answer).await.unwrap();
        };
        let how = Treatment::default();
        let (client, ()) = tokio::join!(client.dial(at(), &how), serving);
        let why = client.err().expect("it is refused").to_string();
        assert!(why.contains("--tls"), "{why}");
    }
}

#[tokio::test]
async fn a_server_with_tls_refuses_everything_else_with_an_alert() {
    let place = Place::new();
    let identity = place.identity(&new_certificate("server.example").unwrap().0);
    // The Convert protocol, HTTP, and a client that offers TLS 1.2 only.
    let old = [&[22, 3, 1, 0, 45, 1, 0, 0, 41, 3, 3][..], &[7; 32], &[0, 0, 2, 0xc0, 0x2f, 1, 0]].concat();
    for first in [&[1, 6, 0x22, 0x63, 10, 5, 0, 80][..], b"GET / HTTP/1.1\r\n\r\n", &old] {
        let memory = Memory::new(4096);
        let mut listener = Tls::server(memory.clone(), identity.clone()).listen(at()).unwrap();
        let mut plain = memory.dial(at(), &Treatment::default()).await.unwrap();
        plain.write_all(first).await.unwrap();
        let talking = async {
            let mut answer = Vec::new();
            plain.read_to_end(&mut answer).await.unwrap();
            drop(plain);
            answer
        };
        let (mut link, _) = listener.accept().await.unwrap();
        let (prepared, answer) = tokio::join!(link.prepare(), talking);
        assert!(prepared.is_err());
        // An alert. // RFC 8446 section 6
        assert!(answer.len() == 7 && answer[0] == 21, "{answer:?}");
        let error = link.read(&mut [0]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotConnected, "no byte is read without TLS");
    }
}

#[tokio::test]
async fn a_connection_that_is_cut_has_no_orderly_end() {
    let place = Place::new();
    let (text, pin) = new_certificate("server.example").unwrap();
    let trust = Trust::pinned("server.example", vec![pin]).unwrap();
    let (client, server) = meet(4096, trust, &place.identity(&text)).await;
    let (mut client, server) = (client.unwrap(), server.unwrap());
    // The TCP ends, as an attacker can make it do, without the alert that ends TLS.
    drop(server);
    let error = client.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn data_before_the_handshake_is_neither_sent_nor_accepted() {
    let place = Place::new();
    let (text, pin) = new_certificate("server.example").unwrap();
    assert_eq!(place.identity(&text).config().max_early_data_size, 0);
    assert!(!Trust::pinned("server.example", vec![pin]).unwrap().config().enable_early_data);
}

#[tokio::test]
async fn a_renewed_certificate_holds_for_new_connections() {
    let place = Place::new();
    let (one, first) = new_certificate("server.example").unwrap();
    let (two, second) = new_certificate("server.example").unwrap();
    let identity = place.identity(&one);
    let file = place.file("server.pem", &two);
    identity.renew(&file, &file).unwrap();
    assert_eq!(identity.pin(), second);
    assert!(refusal(Trust::pinned("server.example", vec![first]).unwrap(), &identity).await.contains("pin"));
    let (client, _) = meet(4096, Trust::pinned("server.example", vec![second]).unwrap(), &identity).await;
    assert!(client.is_ok());
    // A bad file leaves the old one.
    place.file("server.pem", "nothing");
    assert!(identity.renew(&file, &file).unwrap_err().contains("--new-certificate"));
    assert_eq!(identity.pin(), second);
}

#[test]
fn files_of_a_server_have_their_errors() {
    let place = Place::new();
    let (text, _) = new_certificate("server.example").unwrap();
    let (other, _) = new_certificate("server.example").unwrap();
    let cut = text.find("-----BEGIN PRIVATE").unwrap();
    let certificate = place.file("certificate.pem", &text[..cut]);
    let (key, strange) = (place.file("key.pem", &text[cut..]), place.file("other.pem", &other));
    assert!(Identity::open(&certificate, &key).is_ok());
    let error = |certificate: &Path, key: &Path| Identity::open(certificate, key).unwrap_err();
    assert!(error(&certificate, &certificate).contains("--private-key"));
    assert!(error(&key, &key).contains("no certificate in it"));
    assert!(error(&certificate, &strange).contains("does not belong to the certificate"));
    assert!(error(Path::new("/nowhere/x.pem"), &key).contains("/nowhere/x.pem"));
    let broken = place.file("broken.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    assert!(error(&broken, &key).contains("cannot be read"), "{}", error(&broken, &key));
    assert!(new_certificate("a b").unwrap_err().contains("server.example"));
}

#[tokio::test]
async fn a_slow_receiver_gets_every_byte_through_a_relay() {
    use crate::relay::{Direction, End, relay};
    let place = Place::new();
    let (text, pin) = new_certificate("server.example").unwrap();
    let trust = Trust::pinned("server.example", vec![pin]).unwrap();
    // Streams that hold less than a record, so that bytes wait inside of TLS.
    let (client, server) = meet(4096, trust, &place.identity(&text)).await;
    let (mut link, mut far) = (client.unwrap(), server.unwrap());
    let (mut app, mut near) = duplex(100);
    let relaying = tokio::spawn(async move {
        let counts = [std::sync::atomic::AtomicU64::new(0), std::sync::atomic::AtomicU64::new(0)];
        let (_asks, asked) = tokio::sync::watch::channel(0);
        let up = Direction::new(b"first ".to_vec(), None);
        let hour = Duration::from_secs(3600);
        relay(&mut near, &mut link, up, counts.each_ref(), hour, asked, |_| {}).await
    });
    let mut first = [0; 6];
    far.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"first ");
    let sent: Vec<u8> = (0..100_000_u32).map(|at| (at * 7 / 3) as u8).collect();
    // Every byte has to arrive without a further one, and without the end.
    let writing = async { app.write_all(&sent).await.unwrap() };
    let reading = async {
        let mut got = vec![0; sent.len()];
        far.read_exact(&mut got).await.unwrap();
        got
    };
    let ((), got) = tokio::join!(writing, reading);
    assert!(got == sent);
    app.shutdown().await.unwrap();
    far.write_all(b"answer").await.unwrap();
    far.shutdown().await.unwrap();
    let mut answer = String::new();
    app.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "answer");
    assert!(matches!(relaying.await.unwrap(), End::Finished));
}

#[tokio::test]
async fn no_byte_goes_around_tls() {
    let place = Place::new();
    let (text, pin) = new_certificate("server.example").unwrap();
    let kernel = crate::transport::Kernel::plain_tcp();
    let mut listener =
        Tls::server(kernel.clone(), place.identity(&text)).listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = listener.listener.local_address().unwrap();
    let client = Tls::client(kernel, Trust::pinned("server.example", vec![pin]).unwrap());
    let accepting = async {
        let (mut link, _) = listener.accept().await.unwrap();
        assert!(link.socket().is_none());
        link.prepare().await.unwrap();
        link
    };
    let how = Treatment::default();
    let (near, far) = tokio::join!(client.dial(port, &how), accepting);
    // The relay would move the bytes of these sockets.
    assert!(near.unwrap().socket().is_none() && far.socket().is_none());
}
