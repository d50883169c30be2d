# Sourced: read_relay FILE sets url and token from {"url":"…","token":"…"}, which the platform writes.
read_relay() {
    relay_text=
    while IFS= read -r relay_line || [ -n "$relay_line" ]; do relay_text=$relay_text$relay_line; done 2> /dev/null < "$1"
    url=$(relay_field url) token=$(relay_field token)
    case $url in http://* | https://*) ;; *) echo "$1 names no relay" >&2; return 1 ;; esac
    case $token in '' | *[!A-Za-z0-9._~+/=-]*) echo "$1 has no token" >&2; return 1 ;; esac
}

relay_field() {
    case $relay_text in *"\"$1\""*) ;; *) return 0 ;; esac
    relay_rest=${relay_text#*"\"$1\""}
    relay_rest=${relay_rest#*\"}
    printf %s "${relay_rest%%\"*}"
}
