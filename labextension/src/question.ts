/**
 * A question of the agent's: what it wants to do, and why; answered by keyboard or mouse.
 *
 * Keys count only while the focus is in the question, and not in its first moment: somebody who types elsewhere, or has
 * just answered another one, allows nothing by chance.
 */
import type { CodeEditor, IEditorServices } from '@jupyterlab/codeeditor';
import { CodeEditor as Editors } from '@jupyterlab/codeeditor';
import { Widget } from '@lumino/widgets';

import { button, element } from './elements';
import type { Decision, Question } from './protocol';

/** How long a question is new, in milliseconds: its keys do nothing yet. */
const NEW = 600;

/** Decides; throws if it is not taken. */
export type Decide = (answer: Decision, reason: string, text: string | null) => Promise<void>;

export class QuestionPanel extends Widget {
  constructor(
    readonly question: Question,
    private readonly decide: Decide,
    private readonly services: IEditorServices | null
  ) {
    super();
    this.addClass('codeact-Question');
    this.addClass('codeact-mod-new');
    setTimeout(() => {
      this.removeClass('codeact-mod-new');
    }, NEW);
    this.node.tabIndex = 0;
    this.node.setAttribute('role', 'group');
    const title = element('div', 'codeact-Question-title', question.title);
    title.id = `codeact-question-${question.question}`;
    this.node.setAttribute('aria-labelledby', title.id);
    this.node.append(title);
    if (question.why !== '') {
      this.node.append(element('div', 'codeact-Question-why', question.why));
    }
    if (question.diff) {
      this.body.append(diffOf(question.diff));
    } else if (question.text) {
      this.body.append(this.makeEditor(question.text));
    }
    this.node.append(this.body);
    this.node.append(this.makeActions());
    this.node.addEventListener('keydown', this.onKey);
  }

  override dispose(): void {
    this.editor?.dispose();
    this.model?.dispose();
    super.dispose();
  }

  private makeEditor(text: string): HTMLElement {
    const { services } = this;
    const host = element('div', 'codeact-Question-code');
    if (services === null) {
      host.append(element('pre', '', text));
      return host;
    }
    const mimeType = services.mimeTypeService.getMimeTypeByFilePath(`block${this.question.ending ?? ''}`);
    this.model = new Editors.Model({ mimeType });
    this.model.sharedModel.setSource(text);
    this.editor = services.factoryService.newInlineEditor({
      host,
      model: this.model,
      config: { readOnly: true, lineNumbers: false, lineWrap: false }
    });
    return host;
  }

  private makeActions(): HTMLElement {
    const actions = element('div', 'codeact-Question-actions');
    const make = (label: string, key: string, act: () => void): HTMLButtonElement => {
      const made = button(label, act, `${label} (${key})`);
      made.setAttribute('aria-keyshortcuts', key);
      made.append(element('kbd', '', key));
      actions.append(made);
      return made;
    };
    make('Yes', 'y', () => void this.answer('yes')).classList.add('codeact-mod-primary');
    make('No', 'n', () => void this.answer('no'));
    const { always } = this.question;
    if (always) {
      const made = make('Always', 'a', () => void this.answer('always'));
      if (typeof always === 'string') {
        made.title = `Always: ${always}`;
      }
    }
    if (this.isEditable) {
      make('Edit', 'e', () => {
        this.edit();
      });
    }
    this.reason.placeholder = 'Why not? (the agent reads it)';
    this.reason.setAttribute('aria-label', 'A reason, for the agent to read');
    actions.append(this.reason, this.fault);
    this.fault.setAttribute('role', 'alert');
    return actions;
  }

  private get isEditable(): boolean {
    return Boolean(this.question.text) && this.services !== null;
  }

  /** Where a diff is shown, what it leads to is edited. */
  private edit(): void {
    if (this.editor === null) {
      this.body.replaceChildren(this.makeEditor(this.question.text ?? ''));
    }
    this.editor?.setOption('readOnly', false);
    this.editor?.focus();
    this.addClass('codeact-mod-editing');
  }

  private async answer(answer: Decision): Promise<void> {
    if (this.answered) {
      return;
    }
    this.answered = true;
    this.addClass('codeact-mod-answered');
    const text = this.model?.sharedModel.getSource() ?? null;
    const edited = answer !== 'no' && text !== this.question.text ? text : null;
    try {
      await this.decide(answer, this.reason.value.trim(), edited);
    } catch (error) {
      this.answered = false;
      this.removeClass('codeact-mod-answered');
      this.fault.textContent = error instanceof Error ? error.message : String(error);
    }
  }

  private readonly onKey = (event: KeyboardEvent): void => {
    const target = event.target as HTMLElement;
    const writes = target === this.reason || target.closest('.cm-content') !== null;
    if (event.key === 'Escape' && writes) {
      this.node.focus();
    } else if (event.key === 'Enter' && target === this.reason) {
      void this.answer('no');
    } else if (writes || event.ctrlKey || event.metaKey || event.altKey || event.repeat) {
      return;
    } else if (this.hasClass('codeact-mod-new')) {
      // What was typed was not meant for it.
    } else if (event.key === 'y') {
      void this.answer('yes');
    } else if (event.key === 'n') {
      void this.answer('no');
    } else if (event.key === 'a' && this.question.always) {
      void this.answer('always');
    } else if (event.key === 'e' && this.isEditable) {
      this.edit();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  private editor: CodeEditor.IEditor | null = null;
  private model: Editors.Model | null = null;
  private answered = false;
  private readonly body = element('div', '');
  private readonly reason = element('input', 'codeact-Question-reason');
  private readonly fault = element('span', 'codeact-Question-fault');
}

function diffOf(diff: string): HTMLElement {
  const shown = element('div', 'codeact-Question-diff');
  shown.tabIndex = 0;
  for (const line of diff.replace(/\n$/, '').split('\n')) {
    const kind = /^(\+\+\+|---|@@)/.test(line) ? 'place' : line[0] === '+' ? 'added' : line[0] === '-' ? 'removed' : '';
    shown.append(element('span', kind === '' ? '' : `codeact-mod-${kind}`, line === '' ? ' ' : line));
  }
  return shown;
}
