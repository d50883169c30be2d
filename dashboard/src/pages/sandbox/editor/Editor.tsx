import { closeBrackets, closeBracketsKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import {
  bracketMatching,
  defaultHighlightStyle,
  HighlightStyle,
  indentOnInput,
  indentUnit,
  syntaxHighlighting,
} from "@codemirror/language";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, type Extension, Prec } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightSpecialChars,
  keymap,
  lineNumbers,
  placeholder as placeholderText,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "react";
import { loadPart } from "@/ui/lazy";
import { MONO_FONT } from "../fonts";
import { type Language, loadLanguage } from "./languages";
import { strictInput } from "./strictInput";

export interface EditorProps {
  /** What is edited, for screen readers. */
  label: string;
  value: string;
  onChange: (value: string) => void;
  language: Language;
  readOnly?: boolean;
  /** Fills its place and scrolls; otherwise it is as high as its text. */
  fill?: boolean;
  placeholder?: string;
  /** Keys such as `Mod-s` or `Shift-Enter`. They get the text, which `value` may not have yet. */
  keys?: Readonly<Record<string, (text: string) => void>>;
  autoFocus?: boolean;
}

/**
 * A code editor. It lives in a shadow root: there CodeMirror uses constructed style sheets, which
 * the content security policy allows, and no `<style>` elements, which it forbids.
 */
export default function Editor(props: EditorProps) {
  const { value, language, readOnly = false } = props;
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const parts = useRef({ language: new Compartment(), readOnly: new Compartment() });
  const latest = useRef(props);
  latest.current = props;

  useEffect(() => {
    const element = host.current;
    if (element === null) return;
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    const made = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: latest.current.value,
        extensions: extensionsOf(latest, parts.current),
      }),
    });
    view.current = made;
    if (latest.current.autoFocus) made.focus();
    return () => {
      made.destroy();
      view.current = null;
    };
  }, []);

  useEffect(() => {
    const editor = view.current;
    if (editor === null || editor.state.doc.toString() === value) return;
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: value } });
  }, [value]);

  useEffect(() => {
    let isCurrent = true;
    const show = (extension: Extension): void => {
      if (!isCurrent) return;
      view.current?.dispatch({ effects: parts.current.language.reconfigure(extension) });
    };
    // Without its colours the text can still be edited.
    loadPart(() => loadLanguage(language)).then(show, () => undefined);
    return () => {
      isCurrent = false;
    };
  }, [language]);

  useEffect(() => {
    view.current?.dispatch({
      effects: parts.current.readOnly.reconfigure(EditorState.readOnly.of(readOnly)),
    });
  }, [readOnly]);

  return (
    <div
      ref={host}
      data-keys="own"
      data-editor={props.label}
      className={props.fill ? "h-full min-h-0 overflow-hidden" : "min-w-0"}
    />
  );
}

type Parts = { language: Compartment; readOnly: Compartment };

function extensionsOf(latest: { current: EditorProps }, parts: Parts) {
  const { label, fill = false, placeholder, keys = {}, readOnly = false } = latest.current;
  const own = Object.keys(keys).map((key) => ({
    key,
    run: ({ state }: EditorView) => {
      latest.current.keys?.[key]?.(state.doc.toString());
      return true;
    },
  }));
  return [
    Prec.highest(keymap.of(own)),
    fill ? [lineNumbers(), highlightActiveLine()] : [],
    highlightSpecialChars(),
    history(),
    drawSelection(),
    strictInput,
    indentOnInput(),
    indentUnit.of("    "),
    bracketMatching(),
    closeBrackets(),
    search({ top: true }),
    highlightSelectionMatches(),
    syntaxHighlighting(COLOURS),
    syntaxHighlighting(defaultHighlightStyle, { fallback: true }),
    keymap.of([
      ...closeBracketsKeymap,
      ...defaultKeymap,
      ...searchKeymap,
      ...historyKeymap,
      indentWithTab,
    ]),
    placeholder === undefined ? [] : placeholderText(placeholder),
    parts.language.of([]),
    parts.readOnly.of(EditorState.readOnly.of(readOnly)),
    EditorView.contentAttributes.of({ "aria-label": label }),
    EditorView.lineWrapping,
    EditorView.updateListener.of((update) => {
      if (update.docChanged) latest.current.onChange(update.state.doc.toString());
    }),
    lookOf(fill),
  ];
}

function lookOf(fill: boolean) {
  return EditorView.theme({
    "&": {
      color: "var(--ink)",
      backgroundColor: "transparent",
      fontSize: "13px",
      ...(fill ? { height: "100%" } : {}),
    },
    "&.cm-focused": { outline: fill ? "none" : "2px solid var(--accent)", outlineOffset: "-1px" },
    ".cm-scroller": { fontFamily: MONO_FONT, lineHeight: "1.5" },
    ".cm-content": { padding: "8px 0", caretColor: "var(--ink)" },
    ".cm-line": { padding: "0 10px" },
    ".cm-gutters": {
      backgroundColor: "transparent",
      color: "var(--faint)",
      border: "none",
      paddingLeft: "4px",
    },
    ".cm-activeLine": { backgroundColor: "color-mix(in oklch, var(--hover) 60%, transparent)" },
    ".cm-cursor": { borderLeftColor: "var(--ink)" },
    "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground":
      {
        backgroundColor: "color-mix(in oklch, var(--accent) 28%, transparent)",
      },
    ".cm-placeholder": { color: "var(--faint)" },
    ".cm-panels": {
      backgroundColor: "var(--sunken)",
      color: "var(--ink)",
      borderColor: "var(--line)",
    },
    ".cm-textfield, .cm-button": {
      backgroundColor: "var(--panel)",
      backgroundImage: "none",
      color: "var(--ink)",
      border: "1px solid var(--line)",
      borderRadius: "4px",
    },
    ".cm-searchMatch": { backgroundColor: "var(--warn-soft)", outline: "1px solid var(--warn)" },
  });
}

const COLOURS = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier, tags.operatorKeyword], color: "var(--sleep)" },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: "var(--ok)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: "var(--warn)" },
  { tag: [tags.comment, tags.meta], color: "var(--faint)", fontStyle: "italic" },
  {
    tag: [tags.function(tags.variableName), tags.function(tags.propertyName)],
    color: "var(--info)",
  },
  { tag: [tags.typeName, tags.className, tags.tagName], color: "var(--info)" },
  { tag: [tags.propertyName, tags.attributeName], color: "var(--accent)" },
  { tag: [tags.heading, tags.strong], fontWeight: "600" },
  { tag: tags.link, color: "var(--info)", textDecoration: "underline" },
  { tag: tags.invalid, color: "var(--danger)" },
]);
