//! Why dueq cannot work on a Redis. Each message is one line, for the start and for the log.

use crate::{
    backend::{KNOWN_VERSION, SCHEMA_VERSION},
    redis_args::SCHEMES,
};
use deadpool_redis::redis::RedisError;
use dueq_base::{files::FileError, tls::TlsError};

/// Why dueq cannot work on this Redis.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The URL is invalid.
    #[error(
        "invalid Redis URL in --redis-url or --redis-url-file: {0}. It must look like \
            redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], rediss://… for TLS, or redis+unix:///PATH"
    )]
    Url(&'static str),
    /// The client of Redis does not take what the URL says.
    #[error("the Redis URL cannot be used: {0}")]
    Client(RedisError),
    /// The file with the URL or the password cannot be used.
    #[error("a secret for Redis: {0}")]
    File(#[from] FileError),
    /// Both the URL and a file have a password.
    #[error("the Redis URL has a password, so --redis-password-file must not be given")]
    TwoPasswords,
    /// There are certificates, but nothing wants TLS.
    #[error(
        "--redis-ca and --redis-cert are for a Redis URL that begins with rediss://, or for --redis-tls"
    )]
    NotTls,
    /// The URL turns off what TLS is for.
    #[error(
        "the Redis URL ends in #insecure, so any certificate would be accepted: name the authority with --redis-ca, \
            or pass --insecure as well"
    )]
    Insecure,
    /// The URL turns off what the authority is for.
    #[error(
        "the Redis URL ends in #insecure, so --redis-ca would count for nothing: leave one of them out"
    )]
    AuthorityUnused,
    /// A certificate or key cannot be used.
    #[error("TLS to Redis: {0}")]
    Tls(#[from] TlsError),
    /// A file names another Redis than before.
    #[error("the URL names another Redis, database or user: restart dueq to use it")]
    Moved,
    /// It cannot be reached or does not answer.
    #[error("cannot reach Redis: {0}")]
    Unreachable(String),
    /// It answers, and refuses what dueq needs: without the right, or for now.
    #[error("Redis refuses dueq: {0}")]
    Refused(String),
    /// It is a replica.
    #[error("this Redis is a read-only replica: dueq needs its primary")]
    Replica,
    /// It is a node of a Cluster.
    #[error("this Redis is in cluster mode: pass --redis-mode cluster, or auto")]
    Cluster,
    /// A Redis that is no node of a Cluster where one should be.
    #[error(
        "{0} is not in cluster mode: --redis-url names nodes of one Cluster, and a single Redis takes one URL and \
            --redis-mode standalone, or auto"
    )]
    NoCluster(String),
    /// The URL of a node of a Cluster has a database.
    #[error("{0} is a node of a Cluster, which has no database but 0: name none in the URL")]
    ClusterDatabase(String),
    /// Flags of Sentinel together with `--redis-mode cluster`.
    #[error(
        "--redis-mode cluster takes user and TLS from the URLs of its nodes: --sentinel-master, --redis-user, \
            --redis-db and --redis-tls are for Sentinel"
    )]
    OnlyNodes,
    /// No node of the Cluster answers.
    #[error("no node of the Cluster answers: {0}")]
    NoNodes(String),
    /// The Cluster cannot serve all keys.
    #[error("the Cluster at {seed} cannot serve: {reason}")]
    ClusterDown {
        /// The address of the node that was asked.
        seed: String,
        /// Why not.
        reason: String,
    },
    /// The nodes that are named belong to different Clusters.
    #[error("{0} and {1} belong to different Clusters: name nodes of one")]
    SeveralClusters(String, String),
    /// A node that the Cluster names cannot be used.
    #[error("the Cluster names {address} as the primary of dueq's own data: {error}")]
    Node {
        /// The address that it announces.
        address: String,
        /// Why not.
        error: Box<ConnectError>,
    },
    /// Its version is below 6.2.
    #[error("Redis {0} is too old: dueq needs 6.2 or later")]
    TooOld(String),
    /// A newer dueq has written data that this one would not read right.
    #[error(
        "the data in this Redis need a dueq that reads schema version {0}, and this one reads {KNOWN_VERSION}: use a \
            newer dueq"
    )]
    NewerSchema(i64),
    /// The data were written by an older dueq, and this command does not change them.
    #[error(
        "the data in this Redis have schema version {0}, and this dueq needs {SCHEMA_VERSION}: run `dueq migrate` \
            first"
    )]
    OlderSchema(i64),
    /// They were written by an older dueq and could not be brought up to date; what is done stays done.
    #[error("the data in this Redis could not be migrated to schema version {SCHEMA_VERSION}: {0}")]
    Upgrade(&'static str),
    /// Flags of Sentinel together with `--redis-mode standalone`.
    #[error(
        "--redis-mode standalone takes one --redis-url, with user, database and TLS in it: several URLs, \
            --sentinel-master, --redis-user, --redis-db and --redis-tls are for Sentinel"
    )]
    OnlySentinel,
    /// A Sentinel where a Redis should be.
    #[error("this is a Sentinel and no Redis: pass --redis-mode sentinel")]
    Sentinel,
    /// A Redis where a Sentinel should be.
    #[error(
        "{seed} is no Sentinel but {what}: --redis-url names the Sentinels only, and one Redis takes one URL and \
            none of their flags"
    )]
    NoSentinel {
        /// Its address.
        seed: String,
        /// What it is.
        what: &'static str,
    },
    /// The URL of a Sentinel has a database.
    #[error(
        "{0} is a Sentinel, which has no databases: name the primary's with --redis-db, and none in the URL"
    )]
    SentinelDatabase(String),
    /// A Sentinel refuses commands: mostly for want of a password.
    #[error(
        "the Sentinel at {seed} refuses dueq: {reason}: its user and password belong in its URL"
    )]
    SentinelRefuses {
        /// Its address.
        seed: String,
        /// Its words.
        reason: String,
    },
    /// No Sentinel answers.
    #[error("no Sentinel answers: {0}")]
    NoSentinels(String),
    /// A Sentinel does not watch a primary of this name.
    #[error("the Sentinel at {seed} knows no primary {name}: it knows {known}")]
    UnknownMaster {
        /// Its address.
        seed: String,
        /// The name that was asked for.
        name: String,
        /// Those that it knows.
        known: String,
    },
    /// A Sentinel watches nothing.
    #[error("the Sentinel at {0} watches no primary")]
    NoMaster(String),
    /// Which of several primaries is not said.
    #[error("the Sentinels know several primaries, {0}: choose one with --sentinel-master")]
    SeveralMasters(String),
    /// The Sentinels belong to different groups.
    #[error("the Sentinels know different primaries as {name}: {one}, and {other}")]
    Differ {
        /// The name that they share.
        name: String,
        /// Where the primary is by one of them.
        one: String,
        /// Where it is by another.
        other: String,
    },
    /// The primary that the Sentinels name cannot be used.
    #[error("the Sentinels name {address} as the primary {name}: {error}")]
    Named {
        /// The address that they announce.
        address: String,
        /// The primary's name.
        name: String,
        /// Why not.
        error: Box<ConnectError>,
    },
}

impl ConnectError {
    /// What is wrong with this URL, which is not shown: it may hold a password.
    pub(crate) fn of_url(url: &str) -> Self {
        let begins = SCHEMES.iter().any(|scheme| url.starts_with(*scheme));
        Self::Url(match begins {
            _ if url.is_empty() => "it is empty",
            false => "it does not begin with redis://",
            true if url.contains('#') => "#insecure is the only thing that may come after a #",
            true => {
                "its host, port or database cannot be read (special characters of a password are percent-encoded)"
            }
        })
    }

    /// The same, with the address of the server if it has none.
    pub(crate) fn at(self, address: &str) -> Self {
        match self {
            Self::Unreachable(reason) => Self::Unreachable(format!("{address}: {reason}")),
            Self::Refused(reason) => Self::Refused(format!("{address}: {reason}")),
            named => named,
        }
    }

    /// What it says of the server, without its address: `/readyz` tells it to strangers.
    pub(crate) fn cause(&self) -> String {
        match self {
            Self::Named { error, .. } | Self::Node { error, .. } => error.cause(),
            Self::Replica => "it is a read-only replica".to_owned(),
            Self::Unreachable(reason) => format!("it cannot be reached: {reason}"),
            Self::Refused(reason) => reason.clone(),
            Self::NoSentinels(_) => "no Sentinel answers".to_owned(),
            Self::NoNodes(_) => "no node of the Cluster answers".to_owned(),
            other => other.to_string(),
        }
    }
}
