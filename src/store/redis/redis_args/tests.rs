//! What flags and URLs ask for, and what contradicts itself.

use super::*;

fn target(args: &RedisArgs) -> Result<Target, ConnectError> {
    args.target(None).map(|(target, _)| target)
}

fn refused(args: &RedisArgs) -> String {
    target(args).map(|_| ()).unwrap_err().to_string()
}

fn client(args: &RedisArgs) -> Client {
    match target(args) {
        Ok(Target::Redis(client)) => client,
        Ok(_) => panic!("no single Redis"),
        Err(error) => panic!("{error}"),
    }
}

fn sentinels(args: &RedisArgs) -> SentinelTarget {
    match target(args) {
        Ok(Target::Sentinels(target)) => target,
        Ok(_) => panic!("no Sentinels"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn what_contradicts_itself_is_refused() {
    let args = |url: &str| RedisArgs::at(url.to_owned());
    client(&args("rediss://user:sesame@localhost"));
    assert!(refused(&args("rediss://localhost/#insecure")).contains("--insecure"));
    let insecure = RedisArgs { insecure: true, ..args("rediss://localhost/#insecure") };
    client(&insecure);
    assert!(refused(&args("rediss://localhost/#other")).contains("#insecure"));
    let ca = Some(PathBuf::from("/nowhere/ca.pem"));
    let plain = RedisArgs { redis_ca: ca.clone(), ..args("redis://localhost") };
    assert!(refused(&plain).contains("rediss://"));
    let unused = RedisArgs { redis_ca: ca.clone(), ..insecure };
    assert!(refused(&unused).contains("leave one of them out"));
    let missing = RedisArgs { redis_ca: ca, ..args("rediss://localhost") };
    assert!(refused(&missing).contains("/nowhere/ca.pem"));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("password");
    std::fs::write(&path, "sesame\n").unwrap();
    let file = Some(path.clone());
    let both = RedisArgs { redis_password_file: file.clone(), ..args("redis://u:p@localhost") };
    assert!(refused(&both).contains("--redis-password-file"));
    let one = RedisArgs { redis_password_file: file, ..args("redis://u@localhost") };
    let settings = client(&one).get_connection_info().redis_settings().clone();
    assert_eq!((settings.username(), settings.password()), (Some("u"), Some("sesame")));
    std::fs::write(&path, "redis://localhost:1/2\n").unwrap();
    let file = RedisArgs { redis_url_file: Some(path), ..RedisArgs::default() };
    assert_eq!(client(&file).get_connection_info().addr().to_string(), "localhost:1");
}

#[test]
fn urls_come_in_lists_whatever_a_password_holds() {
    let list = "redis://:a,b@s1:1/, redis://s2:2  rediss://s3,valkey://s4,";
    assert_eq!(split(list), ["redis://:a,b@s1:1/", "redis://s2:2", "rediss://s3", "valkey://s4"]);
    assert_eq!(split("redis://h,i"), ["redis://h,i"]);
    assert_eq!(split("nonsense, and more"), ["nonsense, and more"]);
    for none in ["", " ", ",, "] {
        assert!(split(none).is_empty());
        assert!(refused(&RedisArgs::at(none.to_owned())).contains("invalid Redis URL"));
    }
}

#[test]
fn flags_and_several_urls_ask_for_sentinels() {
    let one = || RedisArgs::at("redis://u:p@s1:1".to_owned());
    client(&one());
    client(&RedisArgs { redis_mode: Some(RedisMode::Auto), ..one() });
    let several = RedisArgs::at("redis://u:p@s1:1,redis://s2:2".to_owned());
    assert_eq!(sentinels(&several).seeds.len(), 2);
    for args in [
        several,
        RedisArgs { sentinel_master: Some("m".to_owned()), ..one() },
        RedisArgs { redis_user: Some("u".to_owned()), ..one() },
        RedisArgs { redis_db: Some(3), ..one() },
        RedisArgs { redis_tls: true, ..one() },
    ] {
        sentinels(&args);
        let alone = RedisArgs { redis_mode: Some(RedisMode::Standalone), ..args };
        assert!(refused(&alone).contains("--redis-mode standalone"), "{alone:?}");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("password");
    std::fs::write(&path, "sesame").unwrap();
    let all = RedisArgs {
        redis_mode: Some(RedisMode::Sentinel),
        redis_user: Some("dueq".to_owned()),
        redis_password_file: Some(path),
        redis_db: Some(3),
        redis_tls: true,
        ..one()
    };
    let target = sentinels(&all);
    let seed = target.seeds[0].get_connection_info().redis_settings().clone();
    assert_eq!((seed.username(), seed.password(), seed.db()), (Some("u"), Some("p"), 0));
    let primary = target.primary.at("::1", 6379).unwrap();
    let info = primary.get_connection_info();
    let settings = info.redis_settings();
    assert_eq!(
        (settings.username(), settings.password(), settings.db()),
        (Some("dueq"), Some("sesame"), 3)
    );
    assert!(matches!(info.addr(), ConnectionAddr::TcpTls { insecure: false, .. }));
    let database = RedisArgs::at("redis://s1:1/2,redis://s2:2".to_owned());
    let told = refused(&database);
    assert!(told.contains("s1:1") && told.contains("--redis-db"), "{told}");
}
