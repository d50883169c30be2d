import type { Transaction } from "@codemirror/state";
import { EditorView } from "@codemirror/view";

/**
 * Text that is typed over a selection. The browser would keep the colours of the old text by a
 * `style` attribute, which the content security policy forbids, before the editor repaints it.
 */
export const strictInput = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { main } = view.state.selection;
    const text = event.data;
    if (event.inputType !== "insertText" || event.isComposing || text === null) return false;
    if (main.empty || view.state.readOnly) return false;
    event.preventDefault();
    const insert = (): Transaction =>
      view.state.update(view.state.replaceSelection(text), {
        userEvent: "input.type",
        scrollIntoView: true,
      });
    // Such as brackets that are put around the selection.
    const handlers = view.state.facet(EditorView.inputHandler);
    const isHandled = handlers.some((handle) => handle(view, main.from, main.to, text, insert));
    if (!isHandled) view.dispatch(insert());
    return true;
  },
});
