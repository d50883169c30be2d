# Boots systemd in its own namespaces and control groups: sh -c SCRIPT boot ROOT GROUP. Its process ends with `unshare`.
set -eu
root=$1 group=$2

if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    trees=''
    mkdir "/sys/fs/cgroup/$group"
    echo $$ > "/sys/fs/cgroup/$group/cgroup.procs"
else
    trees='cpu cpuacct cpuset memory devices freezer blkio pids systemd'
    for tree in $trees; do
        folder=/sys/fs/cgroup/$tree/$group
        mkdir "$folder"
        # A new group has no processors and no memory.
        if [ "$tree" = cpuset ]; then
            cat /sys/fs/cgroup/cpuset/cpuset.cpus > "$folder/cpuset.cpus"
            cat /sys/fs/cgroup/cpuset/cpuset.mems > "$folder/cpuset.mems"
        fi
        echo $$ > "$folder/cgroup.procs"
    done
fi
export root trees

exec setpriv --pdeathsig KILL unshare --kill-child=KILL --cgroup --mount --propagation private --pid --net --uts --ipc --fork sh -euc '
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys"
    if [ -z "$trees" ]; then
        mount -t cgroup2 cgroup "$root/sys/fs/cgroup"
    else
        mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
        for tree in $trees; do
            mkdir "$root/sys/fs/cgroup/$tree"
            option=$tree
            [ "$tree" != systemd ] || option=none,name=systemd
            mount -t cgroup -o "$option" cgroup "$root/sys/fs/cgroup/$tree"
        done
    fi
    # Devices of its own: systemd would write to the real console.
    mount -t tmpfs -o mode=755 tmpfs "$root/dev"
    cd "$root/dev"
    mkdir net pts shm
    for device in null zero full random urandom tty net/tun loop-control kvm; do
        [ ! -e "/dev/$device" ] || cp -a "/dev/$device" "$device"
    done
    for number in $(seq 0 255); do mknod "loop$number" b 7 "$number"; done
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts pts
    ln -s pts/ptmx ptmx
    ln -s /proc/self/fd fd
    mount -t tmpfs -o mode=755 tmpfs "$root/run"
    mount -t tmpfs tmpfs "$root/tmp"
    hostname fresh
    cd "$root"
    pivot_root . mnt
    exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        chroot . sh -c "umount -l /mnt && exec /sbin/init --log-target=console"
'
