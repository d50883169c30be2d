#!/bin/sh
# Last step of the `mini` image, run inside its root file system: leave out what a sandbox never reads.
# Recipes that name `mini` as their base run this first.
set -eu

# The machine boots with an initramfs of our own, made outside; the kernel and its modules stay.
rm -f /boot/initrd.img-* /initrd.img /initrd.img.old /vmlinuz /vmlinuz.old

# Udev comes with the kernel package; nothing in the guest runs it, and its hardware database is 22 MB.
rm -rf /usr/lib/udev/hwdb.bin /usr/lib/udev/hwdb.d /etc/udev/hwdb.bin

# A name and a home that every restored machine replaces with its own.
echo sandbox > /etc/hostname
printf '127.0.0.1 localhost\n127.0.1.1 sandbox\n::1 localhost\n' > /etc/hosts
: > /etc/machine-id

# The build copies these from outside, with its own modes and names.
chmod 644 /etc/hostname /etc/hosts /etc/resolv.conf

find /usr -depth -name __pycache__ -path '*/test/*' -exec rm -rf {} +
rm -rf /var/cache/apt /var/cache/debconf/*-old /var/lib/apt/lists/* /var/lib/dpkg/*-old /var/log/* /tmp/pip-*
mkdir -p /var/cache/apt/archives/partial /var/lib/apt/lists/partial /var/log/apt
