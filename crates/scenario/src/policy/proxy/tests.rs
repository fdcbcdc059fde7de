use super::*;

const CLIENT: &str = "
    via = 'auto'
    backup = 'wwan0'
    [[user]]
    name = 'alice'
    password = 'secret'
    [[rule]]
    host = ['*.example.org', 'intranet']
    destination = '10.0.0.0/8'
    via = 'direct'
    [[rule]]
    port = 22
    user = 'alice'
    scheduler = 'blest:lambda=1.2'
    congestion = 'lia'
    paths = 'wlan*'
    answer = 'late'
    multipath = 'never'
    sends = '5MB'
    path-manager = 'anabranch'
    [[budget]]
    path = 'wwan*'
    monthly = '10GB'
    spent = 'off'
    [[budget]]
    path = '10.0.0.2'
    monthly = '1GB'
    [[price]]
    path = 'wwan*'
    price = 2
    [[cap]]
    path = 'fd86:8684:0::2'
    receive = '5Mbit/s'
    [[cap]]
    path = 'FD86:8684::*'
    send = '1Mbit/s'
    [[rule]]
    uid = [1000, '2000-2999']
    program = ['curl', '/usr/bin/git']
    via = 'refuse'
    paths = 'FD86:8684:0:0::2'
";

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eff";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn the_first_rule_that_matches_holds() {
    let policy = ClientPolicy::parse("p.toml", CLIENT).unwrap();
    let of = |facts: Facts<'_>| policy.treatment(&facts).clone();
    let host = |host| of(Facts { host: Some(host), port: 443, ..Facts::default() }).via;
    assert_eq!(host("a.example.org"), Via::Direct);
    assert_eq!(host("A.B.EXAMPLE.ORG."), Via::Direct);
    assert_eq!(host("intranet"), Via::Direct);
    for other in ["example.org", "badexample.org", "example.org.evil", "", "é.example.or"] {
        assert_eq!(host(other), Via::Auto, "{other}");
    }
    let inside = of(Facts { address: Some(ip("::ffff:10.1.1.1")), port: 22, ..Facts::default() });
    assert_eq!(inside.via, Via::Direct);
    let ssh = of(Facts { address: Some(ip("9.9.9.9")), port: 22, user: Some("alice"), ..Facts::default() });
    assert_eq!((ssh.via, ssh.answer, ssh.congestion.as_deref()), (Via::Auto, Answer::Late, Some("lia")));
    assert!(ssh.scheduler.is_some() && ssh.allows("wlan0") && ssh.allows("wwan0") && !ssh.allows("eth0"));
    assert!(ssh.is_backup("wwan0"));
    assert_eq!((ssh.multipath, ssh.sends, ssh.receives), (Multipath::Never, Some(Bytes(5_000_000)), None));
    let [first, second] = policy.budgets.as_slice() else { panic!("{:?}", policy.budgets) };
    assert!(first.covers("wwan0") && !first.covers("wlan0") && first.spent == Spent::Off);
    assert_eq!((second.monthly, second.spent), (Bytes(1_000_000_000), Spent::Backup));
    assert_eq!(ssh.path_manager, Some(Joins::Anabranch));
    let [price] = policy.prices.as_slice() else { panic!("{:?}", policy.prices) };
    assert!(price.covers("wwan1") && !price.covers("wlan0") && price.price == 2.0 && price.slower == 2.0);
    let other = of(Facts { address: Some(ip("9.9.9.9")), port: 22, user: Some("bob"), ..Facts::default() });
    assert_eq!((other.answer, other.multipath), (Answer::Early, Multipath::Remember));
    assert_eq!(other.path_manager, None);
    assert_eq!(ClientPolicy::parse("", "").unwrap(), ClientPolicy::default());
    assert!(policy.caps[0].covers("fd86:8684::2") && policy.caps[0].send.is_none(), "{:?}", policy.caps);
    assert!(
        policy.caps[1].covers("fd86:8684::9") && !policy.caps[1].covers("fd86:8685::9"),
        "{:?}",
        policy.caps
    );
}

#[test]
fn a_rule_for_a_program_of_a_user_matches_no_other() {
    let policy = ClientPolicy::parse("p.toml", CLIENT).unwrap();
    assert_eq!(policy.questions(), Questions { uid: true, program: true });
    assert_eq!(ClientPolicy::default().questions(), Questions::default());
    let via = |uid, programs: &[&str]| {
        let programs: Vec<String> = programs.iter().map(|program| (*program).to_owned()).collect();
        let treatment = policy.treatment(&Facts { port: 80, uid, programs: &programs, ..Facts::default() });
        assert_eq!(treatment.paths.is_some(), treatment.via == Via::Refuse);
        assert!(treatment.via != Via::Refuse || treatment.allows("fd86:8684::2"));
        treatment.via
    };
    for (uid, programs) in [
        (1000, &["/opt/bin/curl"][..]),
        (2000, &["/usr/bin/git"]),
        (2999, &["/bin/sh", "/usr/bin/curl"]),
        (1000, &["/usr/bin/curl (deleted)"]),
    ] {
        assert_eq!(via(Some(uid), programs), Via::Refuse, "{uid} {programs:?}");
    }
    for (uid, programs) in [
        (None, &["/usr/bin/curl"][..]),
        (Some(1001), &["/usr/bin/curl"]),
        (Some(3000), &["/usr/bin/curl"]),
        (Some(1000), &[]),
        (Some(1000), &["/opt/bin/git", "/usr/bin/curly"]),
    ] {
        assert_eq!(via(uid, programs), Via::Auto, "{uid:?} {programs:?}");
    }
}

#[test]
fn an_error_of_a_client_has_its_place_and_a_remedy() {
    for (text, words) in [
        ("vai = 'server'", ["p.toml:1:1", "did you mean `via`?"]),
        ("via = 'sever'", ["p.toml:1:7", "did you mean `server`?"]),
        ("multipath = 'nevr'", ["p.toml:1:13", "did you mean `never`?"]),
        ("[[budget]]\npath = 'wwan0'", ["p.toml:1:1", "monthly"]),
        ("[[budget]]\npath = 'wwan0'\nmonthly = '5'", ["p.toml:3:11", "unit"]),
        ("[[budget]]\npath = 'wwan0'\nmonthly = '1GB'\nspent = 'of'", ["p.toml:4:9", "did you mean `off`?"]),
        ("scheduler = 'minrt'", ["p.toml:1:13", "did you mean"]),
        ("paths = '10.0.0.0/8'", ["p.toml:1:9", "fd86:8684::2"]),
        ("[[cap]]\npath = 'wwan0'", ["this cap has no rate", "5Mbit/s"]),
        ("[[cap]]\npath = 'wwan0'\nsend = '5'", ["p.toml:3:8", "unit"]),
        ("path-manager = 'anabrunch'", ["p.toml:1:16", "did you mean `anabranch`?"]),
        ("[[price]]\npath = 'wwan0'", ["p.toml:1:1", "price"]),
        ("[[price]]\npath = 'wwan0'\nprice = 0", ["p.toml:3:9", "needs no `[[price]]`"]),
        ("[[price]]\npath = 'wwan0'\nprice = 'dear'", ["p.toml:3:9", "such as `0.5`"]),
        ("[[price]]\npath = 'wwan0'\nprice = 1\nslower = 0.5", ["p.toml:4:10", "such as `1.5`"]),
        ("[[rule]]\nuid = 'alice'\nvia = 'direct'", ["p.toml:2:7", "id -u NAME"]),
        ("[[rule]]\nuid = '9-5'\nvia = 'direct'", ["p.toml:2:7", "1000-1999"]),
        ("[[rule]]\nprogram = 'bin/curl'\nvia = 'direct'", ["p.toml:2:11", "/usr/bin/curl"]),
        ("[[rule]]\nport = 80", ["this rule changes nothing", "via = \"direct\""]),
        ("[[rule]]\nhost = '10.0.0.0/8'\nvia = 'direct'", ["p.toml:2:8", "`destination`"]),
        ("[[user]]\nname = 'a'", ["p.toml:1:1", "password"]),
        ("[[user]]\nname = ''\npassword = 'x'", ["p.toml:2:8", "1 to 255"]),
    ] {
        let error = ClientPolicy::parse("p.toml", text).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{text}: {error}");
    }
}

#[test]
fn a_client_of_a_server_has_the_limits_of_the_file_or_its_own() {
    let text = format!(
        "allow = ['public', '10.1.0.0/16']\nrate = 5\nmultipath = 'always'\n[[size]]\nport = [80, '8000-8100']\nsize = '2MB'\n[[client]]\nname = 'a'\nkey = '{KEY}'\n\
         [[client]]\nname = 'b'\nkey = '{KEY}'\nallow = '192.0.2.1'\nport = [80, '8000-8100']\nrate = 9"
    );
    let policy = ServerPolicy::parse("s.toml", &text).unwrap();
    assert_eq!(policy.multipath, Multipath::Always);
    assert_eq!((policy.size(8050), policy.size(443)), (Some(Bytes(2_000_000)), None));
    let a = policy.client("a").unwrap();
    assert_eq!((a.rate, a.key.0[31], a.key.to_string().as_str()), (5, 0xff, KEY));
    assert!(a.reach.contains(ip("8.8.8.8"), 1) && a.reach.contains(ip("10.1.2.3"), 1));
    assert!(!a.reach.contains(ip("10.2.2.3"), 1));
    let b = policy.client("b").unwrap();
    assert!(b.reach.contains(ip("192.0.2.1"), 8050) && !b.reach.contains(ip("192.0.2.1"), 443));
    assert!(!b.reach.contains(ip("8.8.8.8"), 80));
    assert!(policy.client("c").is_none());
    assert!(!format!("{policy:?}").contains("0405"), "a key is not shown");
}

#[test]
fn an_error_of_a_server_has_its_place_and_a_remedy() {
    let entry = format!("[[client]]\nname = 'a'\nkey = '{KEY}'\n");
    for (text, words) in [
        (String::new(), ["no `[[client]]`", "--new-key"]),
        ("[[client]]\nname = 'a'\nkey = '12'".to_owned(), ["s.toml:3:7", "64 hexadecimal digits"]),
        (format!("[[client]]\nname = 'a b'\nkey = '{KEY}'"), ["s.toml:2:8", "letters, digits"]),
        (format!("{entry}{entry}"), ["another client called `a`", "of its own"]),
        (format!("allow = 'private'\n{entry}"), ["s.toml:1:9", "write `public`"]),
        (format!("rate = 0\n{entry}"), ["s.toml:1:8", "from 1 to 10000"]),
        (format!("{entry}conections = 5"), ["unknown key `conections`", "did you mean `connections`?"]),
    ] {
        let error = ServerPolicy::parse("s.toml", &text).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{text}: {error}");
    }
    assert!(ServerPolicy::text_of_key("x\"y", Key([0; 32])).is_err());
    assert!(ServerPolicy::text_of_key("laptop", Key([7; 32])).is_ok());
}

#[test]
fn addresses_of_special_purpose_are_not_public() {
    for special in [
        "0.0.0.0",
        "10.0.0.1",
        "100.64.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "172.31.0.1",
        "192.168.1.1",
        "192.0.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "fe80::1",
        "fec0::1",
        "fc00::1",
        "ff02::1",
        "64:ff9b::a00:1",
        "64:ff9b:1::1",
        "2002:a00:1::",
        "2002:7f00:1::1",
        "2001:db8::1",
        "2001::1",
        "3fff::1",
        "::7f00:1",
        "100::1",
        "4000::1",
    ] {
        assert!(!is_public(ip(special)), "{special}");
        assert!(!Reach::default().contains(ip(special), 80), "{special}");
    }
    for public in
        ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1", "64:ff9b::808:808", "2002:808:808::1"]
    {
        assert!(Reach::default().contains(ip(public), 80), "{public}");
    }
    // A prefix of everything allows what is special, but for addresses that are no host.
    let all = Reach {
        public: false,
        prefixes: vec![Prefix { address: ip("0.0.0.0"), length: 0 }],
        ports: Vec::new(),
    };
    assert!(all.contains(ip("127.0.0.1"), 80) && !all.contains(ip("224.0.0.1"), 80));
    assert!(!all.contains(ip("0.0.0.0"), 80) && !all.contains(ip("8.8.8.8"), 0));
}
