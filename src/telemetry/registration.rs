//! How metrics get their names.

use prometheus_client::registry::{Metric, Registry, Unit};

/// Where metrics of one unit are registered.
pub(super) struct Registration<'a> {
    pub(super) registry: &'a mut Registry,
    pub(super) unit: Option<Unit>,
}

impl Registration<'_> {
    /// `_total` and the unit are added to the name.
    pub(super) fn add<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: &M) {
        match &self.unit {
            None => self.registry.register(name, help, metric.clone()),
            Some(unit) => {
                self.registry.register_with_unit(name, help, unit.clone(), metric.clone());
            }
        }
    }
}
