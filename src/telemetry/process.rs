//! What libraries of Prometheus tell of a process: its processor time, memory and descriptors.

use std::fmt;
use std::fs;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Reads them whenever metrics are read. What the system does not say is left out.
#[derive(Debug)]
pub(super) struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let encoder = &mut encoder;
        let spent = ConstCounter::new(cpu_time().as_secs_f64());
        let help = "Processor time that the process has used.";
        add(encoder, "process_cpu", help, Some(&Unit::Seconds), &spent)?;
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        for (field, name, help) in [
            ("VmRSS:", "process_resident_memory", "Memory of the process that is in RAM."),
            ("VmSize:", "process_virtual_memory", "Addresses that the process has reserved."),
        ] {
            if let Some(bytes) = bytes_in(&status, field) {
                add(encoder, name, help, Some(&Unit::Bytes), &ConstGauge::new(bytes))?;
            }
        }
        if let Some(open) = open_descriptors() {
            let help = "File descriptors in use.";
            add(encoder, "process_open_fds", help, None, &ConstGauge::new(open))?;
        }
        if let Some(most) = getrlimit(Resource::Nofile).current {
            let most = ConstGauge::new(i64::try_from(most).unwrap_or(i64::MAX));
            add(encoder, "process_max_fds", "The most file descriptors.", None, &most)?;
        }
        Ok(())
    }
}

fn add(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    metric: &impl EncodeMetric,
) -> Result<(), fmt::Error> {
    let encoder = encoder.encode_descriptor(name, help, unit, metric.metric_type())?;
    metric.encode(encoder)
}

fn cpu_time() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    let nanos = u32::try_from(spent.tv_nsec).unwrap_or_default();
    Duration::new(u64::try_from(spent.tv_sec).unwrap_or_default(), nanos)
}

/// A line such as `VmRSS:  1024 kB`, in bytes.
fn bytes_in(status: &str, field: &str) -> Option<i64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1_024)
}

/// How many are open; the one that is read from is not counted.
fn open_descriptors() -> Option<i64> {
    i64::try_from(fs::read_dir("/proc/self/fd").ok()?.count()).ok()?.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_s_words_are_read() {
        let status = "Name:\tleasehold\nVmSize:\t  20480 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(bytes_in(status, "VmRSS:"), Some(1_048_576));
        assert_eq!(bytes_in(status, "VmSize:"), Some(20_971_520));
        assert_eq!((bytes_in(status, "VmSwap:"), bytes_in("VmRSS: much", "VmRSS:")), (None, None));
    }
}
