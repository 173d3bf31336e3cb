//! Where a server listens, and what it answers there: one address for everything with the default
//! namespace, and one port for each other namespace.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rondo_core::coordination::NamespaceConfig;
use rondo_proto::convert::{
    SERVICE_RELAY, SERVICE_RENDEZVOUS, SERVICE_RONDO, SERVICE_SPLITS, SERVICE_T, SERVICE_WORKER,
    SERVICE_X,
};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{ServeError, VERSION};
use crate::config::{Config, Listen};
#[cfg(not(madsim))]
use crate::descriptors;
use crate::rendezvous::RendezvousService;
use crate::service::{
    AdminService, CoordinationService, DispatcherService, HealthService, NodeSlot, RelayService,
    Router, ServerInfo, SplitsService,
};
use crate::transport::budget::Budget;
use crate::transport::exposure::{self, Exposed};
use crate::transport::listener::bind;
use crate::transport::{ServerConfig, UNREAD_MAX, of_one_address, serve};

const DISPATCHER: &str = "tensorflow.data.DispatcherService";
const ADMIN: &str = "rondo.v1.Admin";
const HEALTH: &str = "grpc.health.v1.Health";
const RENDEZVOUS: [&str; 2] = [SERVICE_WORKER, SERVICE_RENDEZVOUS];
const COORDINATION: [&str; 3] = [SERVICE_T, SERVICE_X, SERVICE_RONDO];

/// Addresses that are listened on.
pub(super) struct Doors {
    main: Door,
    /// By namespace.
    others: Vec<(Arc<str>, Door)>,
}

struct Door {
    listener: TcpListener,
    address: String,
}

/// Servers that run.
pub(super) struct Servers(Vec<(oneshot::Sender<()>, JoinHandle<()>)>);

impl Doors {
    /// Listens wherever the settings say.
    ///
    /// # Errors
    /// [`ServeError`], for the first address that cannot be listened on.
    pub(super) async fn open(config: &Config) -> Result<Self, ServeError> {
        let main = Door::open(config, config.listen.clone()).await?;
        let mut others = Vec::new();
        for namespace in &config.namespace_ports {
            let listen = Listen { port: namespace.port, ..config.listen.clone() };
            others.push((namespace.name.clone(), Door::open(config, listen).await?));
        }
        Ok(Self { main, others })
    }

    /// The address of everything, as `host:port`.
    pub(super) fn address(&self) -> &str {
        &self.main.address
    }

    /// Which namespace listens where, for people; empty without any but the default one.
    pub(super) fn namespaces(&self) -> String {
        let others = self.others.iter();
        others.map(|(name, door)| format!("; namespace {name} on {}", door.address)).collect()
    }

    /// Serves what `slot` holds, once it does.
    pub(super) fn serve(
        self,
        config: &Config,
        slot: &NodeSlot,
        rendezvous: Option<RendezvousService>,
        budget: Budget,
    ) -> Servers {
        let server = ServerInfo {
            version: VERSION,
            listen_address: self.main.address.clone(),
            started: Instant::now(),
        };
        let mut servers = Servers(Vec::new());
        let dispatcher = DispatcherService::new(slot.clone(), config.protocol_version);
        let connections_max =
            connections_of_each(1_usize.saturating_add(self.others.len()), config);
        let of_all = server_config(config, budget);
        let connections_of_address_max = of_one_address(connections_max);
        let bounds = Bounds(ServerConfig { connections_max, connections_of_address_max, ..of_all });
        let default = config.coordination.namespaces.first();
        let router = match rendezvous {
            Some(service) => Router::new().with_names(&RENDEZVOUS, service),
            None => Router::new(),
        };
        let everything = with_coordination(router, default, slot, &bounds.0)
            .with(DISPATCHER, dispatcher)
            .with(ADMIN, AdminService::new(slot.clone(), server))
            .with(SERVICE_SPLITS, SplitsService::new(slot.clone()))
            .with(HEALTH, health(slot, &[DISPATCHER, ADMIN, SERVICE_SPLITS]));
        servers.start(self.main.listener, everything, bounds.for_tasks_of(default));
        for (name, door) in self.others {
            let known = config.coordination.namespaces.iter().find(|known| known.name == name);
            let router = with_coordination(Router::new(), known, slot, &bounds.0)
                .with(HEALTH, health(slot, &[]));
            servers.start(door.listener, router, bounds.for_tasks_of(known));
        }
        servers
    }
}

impl Door {
    async fn open(config: &Config, listen: Listen) -> Result<Self, ServeError> {
        let Listen { host, port } = &listen;
        let not_found = |reason| ServeError::Resolve { listen: listen.clone(), reason };
        let found = tokio::net::lookup_host((host.as_str(), *port)).await;
        let addresses: Vec<SocketAddr> =
            found.map_err(|error| not_found(error.to_string()))?.collect();
        // Where a name has addresses of both kinds, IPv4 is what most peers can reach.
        let address = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
        let address = *address.ok_or_else(|| not_found("the name has no address".into()))?;
        check_exposure(address, config.insecure)?;
        #[cfg(madsim)]
        let listener = bind(address).await?;
        #[cfg(not(madsim))]
        let listener = bind(address)?;
        let bound = listener.local_addr();
        let address = bound.map_or_else(|_| listen.to_string(), |address| address.to_string());
        Ok(Self { listener, address })
    }
}

impl Servers {
    fn start(&mut self, listener: TcpListener, router: Router, config: ServerConfig) {
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async { stopped.await.unwrap_or(()) };
        let serving = serve(listener, Arc::new(router), config, stopped);
        self.0.push((stop, tokio::spawn(serving)));
    }

    /// Lets calls under way end, all at once, and closes every connection.
    pub(super) async fn stop(self) {
        let (stops, serving): (Vec<_>, Vec<_>) = self.0.into_iter().unzip();
        drop(stops);
        for served in serving {
            if served.await.is_err() {
                tracing::error!("a listener's task panicked");
            }
        }
    }
}

fn with_coordination(
    router: Router,
    namespace: Option<&NamespaceConfig>,
    slot: &NodeSlot,
    bounds: &ServerConfig,
) -> Router {
    let Some(namespace) = namespace else { return router };
    let calls_max = bounds.calls_per_connection_max;
    let service = CoordinationService::new(slot.clone(), namespace, calls_max);
    let service = Arc::new(service);
    let relays = RelayService::new(slot.clone(), namespace.name.clone(), Arc::clone(&service));
    router.with_names(&COORDINATION, service).with(SERVICE_RELAY, relays)
}

fn health(slot: &NodeSlot, others: &[&'static str]) -> HealthService {
    let names = [&[HEALTH, SERVICE_RELAY], &COORDINATION[..], others].concat();
    HealthService::new(slot.clone(), names)
}

/// The bounds of all servers.
struct Bounds(ServerConfig);

impl Bounds {
    /// Those of a server that a namespace's tasks are connected to. A process that is held up for
    /// less than the heartbeat timeout must not lose its connection: it would end.
    fn for_tasks_of(&self, namespace: Option<&NamespaceConfig>) -> ServerConfig {
        let silence_ms = namespace.map_or(0, |namespace| namespace.heartbeat_timeout.as_millis());
        let keepalive_timeout =
            self.0.keepalive_timeout.saturating_add(Duration::from_millis(silence_ms));
        let unread_max =
            self.0.unread_max.map(|most| most.saturating_add(Duration::from_millis(silence_ms)));
        ServerConfig { keepalive_timeout, unread_max, ..self.0.clone() }
    }
}

/// How many connections each of so many listeners may have open.
fn connections_of_each(listeners: usize, config: &Config) -> usize {
    let wanted = config.bounds.connections_max;
    #[cfg(madsim)]
    return listeners.min(1).saturating_mul(wanted);
    #[cfg(not(madsim))]
    descriptors::allowed(listeners, wanted, "--connections-max")
}

fn server_config(config: &Config, budget: Budget) -> ServerConfig {
    ServerConfig {
        message_bytes_max: config.bounds.message_bytes_max,
        budget,
        connections_max: config.bounds.connections_max,
        calls_per_connection_max: config.bounds.calls_per_connection_max,
        shared_memory_bytes_max: config.bounds.shared_memory_bytes_max,
        shutdown_grace: config.bounds.shutdown_grace,
        unread_max: Some(UNREAD_MAX),
        #[cfg(madsim)]
        accepting: config.accepting.clone(),
        ..ServerConfig::default()
    }
}

/// Refuses an address that others can reach, unless they may.
///
/// # Errors
/// [`ServeError::Exposed`].
pub(crate) fn check_exposure(address: SocketAddr, insecure: bool) -> Result<(), ServeError> {
    exposure::check(address, insecure).map_err(|Exposed(address)| ServeError::Exposed(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_held_up_for_less_than_its_heartbeat_timeout_keeps_its_connection() {
        let namespace = NamespaceConfig::named("default");
        let before = ServerConfig::default().keepalive_timeout;
        let bounds = Bounds(ServerConfig::default()).for_tasks_of(Some(&namespace));
        let heartbeat_timeout = Duration::from_millis(namespace.heartbeat_timeout.as_millis());
        assert_eq!(bounds.keepalive_timeout, before + heartbeat_timeout, "{bounds:?}");
    }

    #[test]
    fn one_address_leaves_connections_for_others() {
        for (connections, most) in [(1, 1), (2, 2), (4, 3), (10_000, 7_500)] {
            assert_eq!(of_one_address(connections), most);
        }
    }

    #[test]
    fn only_loopback_goes_without_a_word() {
        for address in ["127.0.0.1:1", "127.1.2.3:1", "[::1]:1"] {
            assert!(check_exposure(address.parse().unwrap(), false).is_ok());
        }
        for address in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1"] {
            let address = address.parse().unwrap();
            let error = check_exposure(address, false).unwrap_err();
            assert!(error.to_string().contains("--insecure"), "{error}");
            assert!(check_exposure(address, true).is_ok());
        }
    }
}
