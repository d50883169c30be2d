#compdef pandastack

# Asks the program for completions. It prints one on a line: VALUE or VALUE:DESCRIPTION, in which a
# colon of the value has a backslash.
_pandastack() {
    local line value
    local -a typed lines values partial options
    # Without quotes, and the last word only up to the cursor.
    typed=("${(@Q)words}")
    typed[CURRENT]=${(Q)PREFIX}
    lines=("${(@f)$(
        _CLAP_IFS=$'\n' _CLAP_COMPLETE_INDEX=$((CURRENT - 1)) PANDASTACK_COMPLETE=zsh \
            command pandastack -- "${typed[@]}" 2> /dev/null
    )}")
    for line in $lines; do
        value=${${line//\\:/$'\0'}%%:*}
        case $value in
            */) partial+=("$line") ;;
            -*) options+=("$line") ;;
            *) values+=("$line") ;;
        esac
    done
    # More follows a directory, so there is no space behind it.
    local found=1
    (($#values)) && _describe -V value values && found=0
    (($#partial)) && _describe -V place partial -S '' && found=0
    (($#options)) && _describe -V option options && found=0
    return found
}

if [[ ${funcstack[1]} == _pandastack ]]; then
    # zsh has loaded this file from a folder of completions to complete the first line.
    _pandastack "$@"
else
    (($+functions[compdef])) || { autoload -Uz compinit && compinit }
    compdef _pandastack pandastack
fi
