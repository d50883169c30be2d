#!/bin/sh
# Installs PandaStack: the client for one user, or the server.
# Usage: PANDASTACK_BASE_URL=https://… sh install.sh [--client | --server] [--version VERSION] [--prefix DIR]
# The base URL is the folder with the files that `make dist` wrote.
set -eu

usage() {
    cat <<'TEXT'
Installs PandaStack from the folder of releases at PANDASTACK_BASE_URL.

  --client           the command line alone (default); needs no root
  --server           server, guest agent and command line; needs root
  --version VERSION  this version instead of the newest
  --prefix DIR       where files go: DIR/bin and DIR/share. By default ~/.local, for root /usr/local

  PANDASTACK_BASE_URL       address of the folder of releases, such as https://downloads.example.com
  PANDASTACK_ALLOW_HTTP=1   accept an address without TLS; anybody on the way can then change the files
TEXT
}

say() { printf 'install: %s\n' "$*"; }
fail() {
    printf 'install: %s\n' "$*" >&2
    exit 1
}

what=client version='' prefix=''
while [ $# -gt 0 ]; do
    case $1 in
    --client | --server) what=${1#--} ;;
    --version | --prefix)
        [ $# -gt 1 ] || fail "$1 needs a value; see --help"
        if [ "$1" = --version ]; then version=$2; else prefix=$2; fi
        shift
        ;;
    --help | -h)
        usage
        exit 0
        ;;
    *) fail "unknown argument $1; see --help" ;;
    esac
    shift
done

# Everything below is in functions, and the last line starts it: a script that was cut off in the
# middle of its download does nothing.

check_computer() {
    system=$(uname -s) machine=$(uname -m)
    [ "$system" = Linux ] || fail "there is no build for $system; the SDKs work there: pip install pandastack"
    case $machine in
    x86_64 | amd64) ;;
    *) fail "there is no build for $machine processors, only for x86_64" ;;
    esac
    [ "$what" = server ] || return 0
    [ "$(id -u)" = 0 ] || fail "the server needs root: run this with sudo, or use --client"
    if ! grep -qwE 'vmx|svm' /proc/cpuinfo; then
        warn_emulated "this processor shows no hardware virtualization (vmx or svm)"
    elif [ ! -e /dev/kvm ]; then
        warn_emulated "there is no /dev/kvm; load the module kvm_intel or kvm_amd"
    fi
}

warn_emulated() {
    say "warning: $1"
    say "warning: machines will be emulated: slow, and no barrier against untrusted code"
}

check_address() {
    base=${PANDASTACK_BASE_URL:-}
    base=${base%/}
    case $base in
    '') fail "set PANDASTACK_BASE_URL to the folder of releases, such as https://downloads.example.com" ;;
    https://* | http://127.*.*.* | http://localhost | http://localhost[:/]* | 'http://[::1]'*) ;;
    http://*)
        [ "${PANDASTACK_ALLOW_HTTP:-}" = 1 ] ||
            fail "$base has no TLS, so the files could be changed on the way; use https, or set PANDASTACK_ALLOW_HTTP=1"
        ;;
    *) fail "PANDASTACK_BASE_URL must begin with https://, and is $base" ;;
    esac
}

# fetch NAME: downloads a file of the release into the work folder.
fetch() {
    if command -v curl > /dev/null; then
        curl --fail --silent --show-error --location --output "$work/$1.part" "$base/$1" || return 1
    elif command -v wget > /dev/null; then
        wget --quiet --tries=1 --output-document="$work/$1.part" "$base/$1" || return 1
    else
        fail "needs curl or wget to download"
    fi
    mv "$work/$1.part" "$work/$1"
}

# pick START END: the newest file of the release whose name is START, a version, END.
pick() {
    names=$(awk '{ print $2 }' "$work/SHA256SUMS" | sed 's/^\*//')
    if [ -n "$version" ]; then
        printf '%s\n' "$names" | grep -Fx "$1$version$2" || fail "the release has no $1$version$2"
        return
    fi
    # Compares versions number by number: 0.10.0 is newer than 0.9.0.
    found=$(printf '%s\n' "$names" | while read -r name; do
        rest=${name#"$1"}
        case $name in "$1"[0-9]*"$2") printf '%s\n' "${rest%"$2"}" ;; esac
    done | sort -t . -k 1,1n -k 2,2n -k 3,3n | tail -n 1)
    [ -n "$found" ] || fail "the release has no $1…$2"
    printf '%s\n' "$1$found$2"
}

# Downloads a file and compares it with the list of checksums.
fetch_checked() {
    say "downloading $1"
    fetch "$1" || fail "could not download $base/$1"
    wanted=$(awk -v name="$1" '$2 == name || $2 == "*" name { print $1 }' "$work/SHA256SUMS")
    found=$(sha256sum "$work/$1")
    [ "$wanted" = "${found%% *}" ] || fail "$1 has the wrong checksum; nothing was installed. Download it again later"
}

# put MODE SOURCE TARGET: replaces a file at once, also one that is running.
put() {
    mkdir -p "$(dirname "$3")"
    cp "$2" "$3.new"
    chmod "$1" "$3.new"
    mv -f "$3.new" "$3"
}

# put_program: the program and its completions, from the unpacked archive in $tree.
put_program() {
    target=$prefix/bin/pandastack before=''
    [ ! -x "$target" ] || before=$("$target" --version 2> /dev/null || true)
    "$tree/bin/pandastack" --version > "$work/version" 2>&1 ||
        fail "the program does not run on this computer: $(cat "$work/version")"
    after=$(cat "$work/version")
    if [ -e "$target" ] && cmp -s "$tree/bin/pandastack" "$target"; then
        say "$after is already in $target"
    else
        put 755 "$tree/bin/pandastack" "$target"
        say "installed $after in $target${before:+ (was ${before#pandastack })}"
    fi
    (cd "$tree/share" && find . -type f) | while read -r file; do
        put 644 "$tree/share/$file" "$prefix/share/$file"
    done
}

unpack() {
    tree=$work/tree
    mkdir "$tree"
    tar -xzf "$work/$1" -C "$tree" --strip-components 1 || fail "could not unpack $1"
}

install_client() {
    archive=$(pick pandastack-client- -linux-x86_64.tar.gz)
    fetch_checked "$archive"
    unpack "$archive"
    put_program
    case :$PATH: in
    *:"$prefix/bin":*) ;;
    *) say "add it to your PATH:  export PATH=\"$prefix/bin:\$PATH\"" ;;
    esac
    say "next:  pandastack login --help     connect it to a server"
    say "zsh finds the completions with this in ~/.zshrc, before compinit:  fpath+=($prefix/share/zsh/site-functions)"
}

# Debian's package manager brings what the server needs. Elsewhere the administrator does.
install_server() {
    if [ -z "$chosen_prefix" ] && command -v apt-get > /dev/null && command -v dpkg > /dev/null; then
        package=$(pick pandastack_ _amd64.deb)
        fetch_checked "$package"
        # apt reads the package as its own user.
        chmod 755 "$work"
        DEBIAN_FRONTEND=noninteractive apt-get install -q -y "$work/$package" ||
            fail "apt-get could not install the package; run apt-get update and try again"
        return
    fi
    archive=$(pick pandastack- -linux-x86_64.tar.gz)
    fetch_checked "$archive"
    unpack "$archive"
    put_program
    put 755 "$tree/lib/pandastack/pandastack-guestd" "$prefix/lib/pandastack/pandastack-guestd"
    sed "s|/usr/bin/pandastack|$prefix/bin/pandastack|" "$tree/lib/systemd/system/pandastack.service" > "$work/unit"
    # systemd looks in /usr/local/lib too.
    put 644 "$work/unit" "$prefix/lib/systemd/system/pandastack.service"
    if [ -z "$chosen_prefix" ]; then
        settings=/etc/pandastack/pandastack.env
        [ -e "$settings" ] || put 640 "$tree$settings" "$settings"
        if [ -d /run/systemd/system ]; then
            systemctl daemon-reload
            say "start it:  systemctl enable --now pandastack"
        fi
    fi
    say "next:  $prefix/bin/pandastack doctor     says what this computer lacks"
}

main() {
    check_computer
    check_address
    chosen_prefix=$prefix
    if [ -z "$prefix" ]; then
        if [ "$(id -u)" = 0 ]; then
            prefix=/usr/local
        else
            prefix=${HOME:?set HOME, or use --prefix}/.local
        fi
    fi
    command -v sha256sum > /dev/null || fail "needs sha256sum to check what it downloads"
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    fetch SHA256SUMS || fail "could not download $base/SHA256SUMS; is PANDASTACK_BASE_URL right?"
    "install_$what"
}

main
