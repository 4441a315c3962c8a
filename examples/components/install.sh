#!/bin/sh
# Installs the servers that an example uses, from Debian's packages, where they are missing: postgres, rabbitmq, redis.
#
#     sh examples/components/install.sh postgres redis
set -eu

found() {
    case $1 in
        postgres) ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 ;;
        rabbitmq) test -x /usr/lib/rabbitmq/bin/rabbitmq-server ;;
        redis) command -v redis-server >/dev/null ;;
        *) echo "$0: no component is called $1" >&2; exit 2 ;;
    esac
}

missing=
for component in "$@"; do
    if found "$component"; then continue; fi
    case $component in
        postgres) missing="$missing postgresql" ;;
        rabbitmq) missing="$missing rabbitmq-server" ;;
        redis) missing="$missing redis-server" ;;
    esac
done
if [ -z "$missing" ]; then exit 0; fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "$0: missing:$missing; install them (apt-get install$missing, as root) and start this again" >&2
    exit 1
fi

echo "installing into the system, with apt-get:$missing" >&2
# Several examples may come here at once: the first one installs, the others wait for it and find what they need there.
if [ -z "${LEASEHOLD_INSTALLS:-}" ] && command -v flock >/dev/null; then
    exec env LEASEHOLD_INSTALLS=1 flock "${TMPDIR:-/tmp}/leasehold-install.lock" sh "$0" "$@"
fi

# Packages start their servers; the examples start servers of their own, and leave those of the machine alone.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    trap 'rm -f $policy' EXIT
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod +x $policy
fi
apt-get update -qq >&2
# shellcheck disable=SC2086  # several words
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >&2
