#!/usr/bin/env bash
# Kubernetes 1.20.2 with nodes that run containers, on one machine: no Docker, no registry. As root.
#   nodes.sh up [N]                     control plane and nodes, until all are Ready; 2 by default
#   nodes.sh node_down N | node_up N    a node loses its power, and has it again (its disk stays)
#   nodes.sh status | down              down leaves no mount, namespace, cgroup, route or process
# Before: tests/cluster/build.sh, tests/cluster/pods/images.sh. It prints where the kubeconfig is.
#
# A node is one `unshare`: network, mounts, processes and host name of its own, with containerd,
# kubelet and kube-proxy in it. When its first process is killed, the kernel ends all the rest.
# Addresses: NET.0.1 the machine, NET.0.(10+N) node N, NET.(10+N).0/24 its pods.
# It needs cgroup v1, and is for tests only: the kubelets' ports are open on the bridge.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep
binaries=$cache/kubernetes-1.20.2
work=${LOCKSTEP_NODES:-/tmp/lockstep-nodes}  # short: paths of sockets are
net=10.91
bridge=lsn
group=lockstep-nodes  # below every cgroup controller
api=https://$net.0.1:6443
programs=(containerd runc ctr iptables ip unshare nsenter etcd openssl buildah)

say() { echo "nodes.sh: $*" >&2; }
within() { # SECONDS COMMAND...
  local end=$((SECONDS + $1)); shift
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || { say "not in time: $*"; return 1; }
    sleep 0.2
  done
}
gone() { [ ! -e "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status"; }  # nobody may have waited for it

# What would have to be built first, a line each.
uncached() {
  local each
  for each in kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy; do
    [ -x "$binaries/$each" ] || echo "no $each: tests/cluster/build.sh was not run, or failed"
  done
  [ -e "$cache/images/complete" ] \
    || echo 'no images: tests/cluster/pods/images.sh was not run, or failed'
}

# One reason a line; nothing = it can run here.
missing() {
  local each
  [ "$(id -u)" = 0 ] || echo 'nodes are made by root'
  [ -d /sys/fs/cgroup/memory ] || echo 'no cgroup v1: with version 2 it was not tried'
  for each in "${programs[@]}"; do command -v "$each" >/dev/null || echo "no $each"; done
  [ -x /usr/lib/cni/bridge ] || echo 'no containernetworking-plugins'
  uncached
}

# Why a run of tests has none of these in it, likewise.
unasked() {
  [ "${LOCKSTEP_PODS:-}" = 1 ] && missing || echo 'kubelets are started only where LOCKSTEP_PODS=1 asks for them: make test-pods, .ci/night'
}

start() { # NAME COMMAND...
  local name=$1; shift
  setsid "$@" >"$work/$name.log" 2>&1 </dev/null &
  echo $! >"$work/pids/$name"
}

kubeconfig() { # TOKEN
  cat <<END
{"apiVersion": "v1", "kind": "Config", "current-context": "c",
 "clusters": [{"name": "c", "cluster": {"server": "$api", "certificate-authority": "$work/certs/apiserver.crt"}}],
 "users": [{"name": "u", "user": {"token": "$1"}}],
 "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}
END
}

ask() { # PATH
  curl -sf --max-time 5 --cacert "$work/certs/apiserver.crt" -H "Authorization: Bearer $(cat "$work/token")" "$api$1"
}
ready() { # NODE
  ask "/api/v1/nodes/$1" | python3 -c 'import json, sys
sys.exit(not any(c["type"] == "Ready" and c["status"] == "True" for c in json.load(sys.stdin)["status"]["conditions"]))'
}
ready_or_gone() { # NUMBER
  gone "$(cat "$work/node-$1/first")" || ready "node-$1"
}

up() {
  local count=${1:-2} number token why
  why=$(missing)
  [ -z "$why" ] || { say "$why"; exit 69; }
  [ ! -e "$work/pids" ] || { say "it runs already, or was not taken down: $work"; exit 64; }
  mkdir -p "$work/pids" "$work/certs"
  chmod 700 "$work"
  cd "$work"
  ip link add "$bridge" type bridge
  ip addr add "$net.0.1/24" dev "$bridge"
  ip link set "$bridge" up
  openssl genrsa -out sa.key 2048 2>/dev/null
  openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null
  openssl rand -hex 16 >token
  echo "$(cat token),admin,admin,\"system:masters\"" >tokens.csv
  for ((number = 0; number < count; number++)); do
    token=$(openssl rand -hex 16)
    mkdir -p "node-$number"
    echo "$token,system:node:node-$number,node-$number,\"system:nodes\"" >>tokens.csv
    kubeconfig "$token" >"node-$number/kubeconfig"
  done
  kubeconfig "$(cat token)" >admin.kubeconfig
  start etcd etcd --data-dir=etcd --unsafe-no-fsync --listen-client-urls="http://$net.0.1:2379" \
    --advertise-client-urls="http://$net.0.1:2379" --listen-peer-urls="http://$net.0.1:2380" \
    --initial-cluster="default=http://$net.0.1:2380" --initial-advertise-peer-urls="http://$net.0.1:2380"
  start kube-apiserver "$binaries/kube-apiserver" --etcd-servers="http://$net.0.1:2379" \
    --bind-address="$net.0.1" --advertise-address="$net.0.1" --secure-port=6443 --cert-dir=certs \
    --service-cluster-ip-range=10.0.0.0/24 --service-account-issuer=https://kubernetes.default.svc \
    --service-account-signing-key-file=sa.key --service-account-key-file=sa.pub \
    --authorization-mode=RBAC,Node --token-auth-file=tokens.csv --allow-privileged=true \
    --kubelet-preferred-address-types=InternalIP
  within 90 ask /readyz
  start kube-controller-manager "$binaries/kube-controller-manager" --kubeconfig=admin.kubeconfig \
    --leader-elect=false --service-account-private-key-file=sa.key --root-ca-file=certs/apiserver.crt \
    --controllers='*,-csrsigning,-csrapproving' --bind-address=127.0.0.1 --port=0 --secure-port=0 \
    --node-monitor-period=2s --node-monitor-grace-period=12s
  start kube-scheduler "$binaries/kube-scheduler" --kubeconfig=admin.kubeconfig --leader-elect=false \
    --port=0 --secure-port=0
  start names python3 "$here/names.py" "$net.0.1" "$api" "$work/certs/apiserver.crt" "$work/token"
  for ((number = 0; number < count; number++)); do node_up "$number"; done
  for ((number = 0; number < count; number++)); do
    within 300 ready_or_gone "$number" || true
    ready "node-$number" || {
      say "node-$number is not Ready; it said last:"
      tail -n 5 "node-$number.log" "node-$number/import.log" "node-$number/kubelet.log" >&2 || true
      exit 70
    }
  done
  echo "KUBECONFIG=$work/admin.kubeconfig"
}

node_up() { # NUMBER
  local number=$1 first
  start "node-$number" unshare --net --mount --uts --ipc --pid --fork --kill-child=KILL \
    --propagation=private bash "$here/nodes.sh" inside "$number"
  within 10 pgrep -P "$(cat "$work/pids/node-$number")"
  first=$(pgrep -P "$(cat "$work/pids/node-$number")")
  echo "$first" >"$work/node-$number/first"
  ip link add "$bridge-$number" type veth peer name eth0 netns "$first"
  ip link set "$bridge-$number" master "$bridge" up
  ip route add "$net.$((10 + number)).0/24" via "$net.0.$((10 + number))"
}

node_down() { # NUMBER: nothing of it says goodbye
  kill -KILL "$(cat "$work/pids/node-$1")" 2>/dev/null || true
  [ ! -e "$work/node-$1/first" ] || within 20 gone "$(cat "$work/node-$1/first")"
  ip route del "$net.$((10 + $1)).0/24" 2>/dev/null || true
  ip link del "$bridge-$1" 2>/dev/null || true
  rm -f "$work/pids/node-$1"
}

inside() { # NUMBER: the first process of a node
  local number=$1 name=node-$1 folder=$work/node-$1 images=$cache/images/node-$1 other each archive
  # What is the node's own. A mount of /sys shows the network of who mounts it.
  mount -t proc proc /proc
  mkdir -p "$folder"/{kubelet,cni,cgroup} "$images/imported"
  mount --rbind /sys/fs/cgroup "$folder/cgroup"
  mount -t sysfs sysfs /sys
  mount --rbind "$folder/cgroup" /sys/fs/cgroup
  umount -R "$folder/cgroup"
  for each in /run /var/lib /var/log; do mount -t tmpfs -o mode=755 tmpfs "$each"; done
  mkdir -p /var/lib/kubelet /run/lock
  mount --bind "$folder/kubelet" /var/lib/kubelet
  # What pods ask for is counted, and most of them wait: a node says that it has eight processors.
  mkdir -p /run/processors/node0
  (cd /sys/devices/system/node/node0 && cp --parents meminfo hugepages/*/nr_hugepages /run/processors/node0)
  for each in {0..7}; do
    mkdir -p "/run/processors/node0/cpu$each/topology"
    echo "$each" >"/run/processors/node0/cpu$each/topology/core_id"
    echo 0 >"/run/processors/node0/cpu$each/topology/physical_package_id"
    echo 1 >"/run/processors/node0/cpu$each/online"
  done
  mount --bind /run/processors /sys/devices/system/node
  mount --make-rshared /  # only now: umount would have reached the original too
  hostname "$name"
  echo 1 >/proc/sys/net/ipv4/ip_forward
  ip link set lo up
  within 10 ip link show eth0
  ip addr add "$net.0.$((10 + number))/24" dev eth0
  ip link set eth0 up
  ip route add default via "$net.0.1"
  ip route add unreachable 169.254.0.0/16  # the kubelet asks there for clouds, and waits
  for ((other = 0; other < 8; other++)); do
    [ "$other" = "$number" ] || ip route add "$net.$((10 + other)).0/24" via "$net.0.$((10 + other))"
  done
  cat >"$folder/cni/10-pods.conf" <<END
{"cniVersion": "0.4.0", "name": "pods", "type": "bridge", "bridge": "pods", "isGateway": true, "hairpinMode": true,
 "ipMasq": false, "ipam": {"type": "host-local", "ranges": [[{"subnet": "$net.$((10 + number)).0/24"}]],
 "routes": [{"dst": "0.0.0.0/0"}]}}
END
  cat >"$folder/containerd.toml" <<END
version = 2
root = "$images/root"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = "/run/containerd/containerd.sock"
# What is no longer named is removed below, not while layers over it are unpacked: import would fail.
[plugins."io.containerd.gc.v1.scheduler"]
  startup_delay = "24h"
  deletion_threshold = 0
  mutation_threshold = 0
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true  # for a root without CAP_SYS_RESOURCE
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$folder/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
END
  printf 'nameserver %s\n' "$net.0.1" >"$folder/resolv.conf"
  # A cgroupRoot each, or one kubelet removes the other's pods' cgroups.
  cat >"$folder/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: /$group/$name
enforceNodeAllocatable: [pods]
failSwapOn: false
evictionHard: {memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
clusterDNS: [$net.0.1]
clusterDomain: cluster.local
resolvConf: $folder/resolv.conf
nodeStatusUpdateFrequency: 2s
syncFrequency: 10s
END
  cat >"$folder/proxy.yaml" <<END
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
hostnameOverride: $name
clientConnection: {kubeconfig: $work/admin.kubeconfig}
clusterCIDR: $net.0.0/16
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
END
  for each in /sys/fs/cgroup/{memory,cpu,cpuacct,cpuset,devices,freezer,blkio,pids,systemd}; do
    mkdir -p "$each/$group/$name"
  done
  # Whole machines, and not one process beside others; a group takes no notice of who has which nice.
  awk -v nice="$(nice)" 'BEGIN {shares = 4096 / 1.25 ^ nice; print int(shares < 262144 ? shares : 262144)}' \
    >"/sys/fs/cgroup/cpu/$group/cpu.shares"
  for each in /sys/fs/cgroup/cpuset/$group /sys/fs/cgroup/cpuset/$group/$name; do
    cat /sys/fs/cgroup/cpuset/cpuset.cpus >"$each/cpuset.cpus"
    cat /sys/fs/cgroup/cpuset/cpuset.mems >"$each/cpuset.mems"
  done
  containerd --config "$folder/containerd.toml" >"$folder/containerd.log" 2>&1 &
  within 30 ctr version
  for archive in "$cache"/images/archives/*.tar; do
    each=$(basename "$archive" .tar)
    cmp -s "${archive%.tar}.id" "$images/imported/$each" && continue
    ctr -n k8s.io images import "$archive" >>"$folder/import.log" 2>&1
    cp "${archive%.tar}.id" "$images/imported/$each"
  done
  # Of images whose name is another's now, the kubelet's names are left: gigabytes.
  ctr -n k8s.io images ls | awk 'NR > 1 {of[$1] = $3; if ($1 !~ /^sha256:/) named[$3] = 1}
    END {for (each in of) if (!(of[each] in named)) print each}' |
    xargs --no-run-if-empty ctr -n k8s.io images rm --sync >>"$folder/import.log" 2>&1
  "$binaries/kube-proxy" --config="$folder/proxy.yaml" >"$folder/kube-proxy.log" 2>&1 &
  "$binaries/kubelet" --config="$folder/kubelet.yaml" --kubeconfig="$folder/kubeconfig" \
    --hostname-override="$name" --node-ip="$net.0.$((10 + number))" --root-dir=/var/lib/kubelet \
    --container-runtime=remote --container-runtime-endpoint=unix:///run/containerd/containerd.sock \
    --node-labels=nvidia.com/gpu.present=true >"$folder/kubelet.log" 2>&1 &
  wait
}

down() {
  local each pid
  for each in "$work"/pids/node-*; do
    [ ! -e "$each" ] || node_down "${each##*-}"
  done
  for each in "$work"/pids/*; do
    [ -e "$each" ] || continue
    pid=$(cat "$each")
    kill -TERM "$pid" 2>/dev/null || true
    within 3 gone "$pid" 2>/dev/null || kill -KILL "$pid" 2>/dev/null || true  # the API server takes a minute
  done
  ip link del "$bridge" 2>/dev/null || true
  for each in /sys/fs/cgroup/*/"$group"; do
    [ ! -d "$each" ] || find "$each" -depth -type d -exec rmdir {} + 2>/dev/null || true
  done
  rm -rf "$work"
}

# Every trace of it on this machine, a line each; nothing after `down`.
left() {
  pgrep -af "$work|lockstep-nodes" | grep -v "nodes.sh left" || true
  grep "$work\|/$group" /proc/mounts || true
  ip -o link show | grep -o " $bridge[@:-][^ ]*" || true
  ip route show | grep "^$net\." || true
  find /sys/fs/cgroup -maxdepth 2 -name "$group"
  [ ! -e "$work" ] || echo "$work"
}

status() {
  local each
  for each in "$work"/pids/*; do
    [ -e "$each" ] || continue
    gone "$(cat "$each")" && echo "$(basename "$each") gone" || echo "$(basename "$each") $(cat "$each")"
  done
  ask /api/v1/nodes | python3 -c 'import json, sys
for node in json.load(sys.stdin)["items"]:
    print(node["metadata"]["name"], *(c["type"] + "=" + c["status"] for c in node["status"]["conditions"]))'
}

case ${1:-} in
  up | node_up | node_down | inside | down | left | status | uncached | missing | unasked) "$@" ;;
  *) sed -n '2,14s/^# \?//p' "$0" >&2; exit 64 ;;
esac
