/**
 * Elements of the page, made in one line.
 */

/** An element with a class (none if empty) and a text. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  className: string,
  text = ''
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  if (className !== '') {
    made.className = className;
  }
  made.textContent = text;
  return made;
}

/** A small button, in the looks of JupyterLab's toolbars. */
export function button(label: string, act: () => void, title = label): HTMLButtonElement {
  const made = element('button', 'codeact-Button', label);
  made.type = 'button';
  made.title = title;
  made.addEventListener('click', act);
  return made;
}

/** Change a text, where that is a change: a screen reader says what changes. */
export function setText(node: HTMLElement, text: string): void {
  if (node.textContent !== text) {
    node.textContent = text;
  }
}
