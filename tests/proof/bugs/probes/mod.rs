//! Short scenarios, each made to meet one kind of bug within seconds. Without a bug all of them are
//! clean.

pub mod bounds;
pub mod calls;
pub mod counts;
pub mod customers;
pub mod deaths;
pub mod faults;
pub mod forgets;
pub mod grants;
pub mod groups;
pub mod keys;
pub mod leases;
pub mod leftovers;
pub mod links;
pub mod moves;
pub mod replicas;
pub mod tenants;
pub mod told;
pub mod waits;
