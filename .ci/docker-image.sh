#!/usr/bin/env bash
# Docker with a Kafka image on a Debian machine that can pull none: the engine and debootstrap from Debian's packages,
# a small Debian with a JRE as the image's system, Kafka's jars by aioprod.testing.kafka.jars. Needs root; a second run takes
# a second.
#
#   .ci/docker-image.sh [VERSION]   makes aioprod/kafka:VERSION; starts dockerd if no engine answers
#   .ci/docker-image.sh stop        ends the dockerd that this script started
#
# PYTHON names a Python that has aioprod, DOCKERD_OPTIONS what dockerd needs on an unusual machine.
set -euo pipefail

pid_file=/run/aioprod-dockerd.pid
log=/var/log/aioprod-dockerd.log

engine_answers() {
    timeout 5 docker version --format '{{.Server.Version}}' >/dev/null 2>&1
}

install_packages() {
    if command -v dockerd >/dev/null && command -v debootstrap >/dev/null; then
        return
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker.io debootstrap >/dev/null
}

start_engine() {
    if engine_answers; then
        return
    fi
    # shellcheck disable=SC2086  # several options in one variable
    setsid dockerd ${DOCKERD_OPTIONS:-} >"$log" 2>&1 </dev/null &
    echo $! >"$pid_file"
    for _ in $(seq 60); do
        if engine_answers; then
            return
        fi
        sleep 1
    done
    echo "dockerd did not answer within 60 s; the end of $log:" >&2
    tail -n 20 "$log" >&2
    exit 1
}

stop_engine() {
    if [ -e "$pid_file" ]; then
        pid=$(cat "$pid_file")
        rm "$pid_file"
        if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = dockerd ]; then
            kill "$pid"
            timeout 30 tail --pid="$pid" -f /dev/null
        fi
    fi
}

make_image() {
    local image=$1 version=$2 work jars
    jars=$("${PYTHON:-python3}" -m aioprod.testing.kafka.jars "$version")
    work=$(mktemp -d)
    # shellcheck disable=SC2064  # this very folder
    trap "rm -rf --one-file-system '$work'" EXIT
    debootstrap --variant=minbase --include=openjdk-17-jre-headless bookworm "$work/root" >"$work/log" || {
        tail -n 20 "$work/log" >&2
        exit 1
    }
    mkdir -p "$work/root/opt/kafka/libs"
    cp "$jars"/*.jar "$work/root/opt/kafka/libs/"
    tar -C "$work/root" --exclude='./proc/*' --exclude='./sys/*' --exclude='./dev/*' --exclude='./usr/share/doc/*' \
        --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' -c . |
        docker import --change 'ENV JDK_JAVA_OPTIONS=-XX:TieredStopAtLevel=1' - "$image" >/dev/null
}

if [ "${1:-}" = stop ]; then
    stop_engine
    exit
fi
version=${1:-$("${PYTHON:-python3}" -c "from aioprod.testing.kafka.jars import DEFAULT_VERSION; print(DEFAULT_VERSION)")}
image=aioprod/kafka:$version
install_packages
start_engine
if ! docker image inspect "$image" >/dev/null 2>&1; then
    make_image "$image" "$version"
fi
echo "$image"
