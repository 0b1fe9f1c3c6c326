/**
 * The bar in the output of the cell that holds `%agent`: how far the run is, and what can be done about it.
 *
 * It shows what the display in the notebook says, and what the kernel says of the run where it can be reached, which
 * is newer. Without a kernel it is a picture of how the run ended.
 */
import type { IEditorServices } from '@jupyterlab/codeeditor';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import type { CommandRegistry } from '@lumino/commands';
import { Menu, Panel, Widget } from '@lumino/widgets';

import { button, element, setText } from './elements';
import type { NotebookRuns } from './notebook';
import { Notice } from './notice';
import { type Bar, goesOn, MIME, type RunDisplay } from './protocol';
import { QuestionPanel } from './question';
import type { Run } from './run';
import { duration, elapsed, figures, runState } from './words';

/** What a bar needs of the page around it. */
export interface Around {
  commands: CommandRegistry;
  editors: IEditorServices | null;
  /** Shows the notebook, where another tab is in front of it. */
  activate(): void;
}

/** In the menu of a bar; each takes the run's key as `run`. */
export const MENU: readonly (string | null)[] = [
  'codeact:fold',
  'codeact:unfold',
  null,
  'codeact:keep',
  'codeact:run-again',
  null,
  'codeact:remove',
  null,
  'codeact:settings'
];

export class RunBar extends Panel implements IRenderMime.IRenderer {
  constructor(
    private readonly runs: NotebookRuns,
    private readonly around: Around
  ) {
    super();
    this.addClass('codeact-Bar');
    // Single letters answer questions here, and are no commands of the notebook's.
    this.node.dataset['lmSuppressShortcuts'] = 'true';
    this.node.setAttribute('role', 'group');
    this.node.setAttribute('aria-label', 'Agent');
    const head = new Widget();
    head.node.append(this.makeRow(), this.makeSteering(), this.makeProblem(), this.said);
    this.addWidget(head);
    this.said.setAttribute('role', 'status');
    runs.changed.connect(this.onRuns, this);
  }

  override dispose(): void {
    clearInterval(this.clock);
    this.runs.changed.disconnect(this.onRuns, this);
    this.run?.changed.disconnect(this.draw, this);
    for (const notice of this.notices.values()) {
      notice.dispose();
    }
    super.dispose();
  }

  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const display = model.data[MIME] as unknown as RunDisplay;
    this.key = display.run;
    this.shown = display.bar;
    this.onRuns();
    return Promise.resolve();
  }

  /** Put the focus to the first question; false if there is none. */
  goToQuestion(): boolean {
    const first = this.panels.values().next().value;
    first?.node.scrollIntoView({ block: 'center' });
    first?.node.focus({ preventScroll: true });
    return first !== undefined;
  }

  private onRuns(): void {
    const run = this.runs.get(this.key);
    if (run !== this.run) {
      this.run?.changed.disconnect(this.draw, this);
      this.run = run;
      run?.changed.connect(this.draw, this);
    }
    this.draw();
  }

  // The parts.

  private makeRow(): HTMLElement {
    const row = element('div', 'codeact-Bar-row');
    const told = element('div', 'codeact-Bar-told');
    told.append(this.dot, this.state, this.text);
    this.dot.setAttribute('aria-hidden', 'true');
    const figures = element('div', 'codeact-Bar-figures');
    figures.append(this.time, this.figures, this.fill);
    this.fill.append(this.fillDone);
    this.fill.setAttribute('role', 'meter');
    this.fill.setAttribute('aria-label', "How full the model's context is");
    this.fill.setAttribute('aria-valuemin', '0');
    this.fill.setAttribute('aria-valuemax', '100');
    const buttons = element('div', 'codeact-Bar-buttons');
    buttons.setAttribute('role', 'toolbar');
    buttons.setAttribute('aria-label', 'What to do about the run');
    buttons.append(this.stopBlock, this.stop, this.steer, this.follow, this.fold, this.more);
    this.more.setAttribute('aria-label', 'More');
    this.more.setAttribute('aria-haspopup', 'menu');
    row.append(told, figures, buttons);
    return row;
  }

  private makeSteering(): HTMLElement {
    this.note.placeholder = 'A note for the agent, read at its next step';
    this.note.setAttribute('aria-label', 'A note for the agent');
    const send = button('Send', () => {
      this.sendNote();
    });
    this.steering.append(this.note, send);
    this.steering.hidden = true;
    this.steering.addEventListener('keydown', event => {
      if (event.key === 'Escape') {
        this.setSteering(false);
      } else if (event.key === 'Enter' && event.target === this.note && !event.isComposing) {
        event.preventDefault();
        this.sendNote();
      }
    });
    return this.steering;
  }

  private makeProblem(): HTMLElement {
    this.problem.setAttribute('role', 'alert');
    this.problem.append(this.problemText, this.again);
    this.problem.hidden = true;
    return this.problem;
  }

  private sendNote(): void {
    const text = this.note.value.trim();
    if (text !== '') {
      void this.run?.steer(text);
      this.say('Your note is on its way.');
    }
    this.note.value = '';
    this.setSteering(false);
  }

  private setSteering(open: boolean): void {
    this.steering.hidden = !open;
    this.steer.setAttribute('aria-expanded', String(open));
    if (open) {
      this.note.focus();
    } else {
      this.steer.focus();
    }
  }

  private say(text: string): void {
    setText(this.said, text);
  }

  // What is shown.

  private draw(): void {
    const bar = this.run?.bar ?? this.shown;
    const live = this.run?.isLive === true;
    const told = bar === null ? 'working' : bar.state;
    const cut = bar !== null && goesOn(bar.state) && !live;
    this.node.dataset['state'] = cut ? 'cut' : told;
    setText(this.state, cut ? 'Not connected' : runState(told));
    const asked = this.run?.questions.values().next().value;
    const text = asked?.title ?? bar?.text ?? '';
    setText(this.text, text);
    this.text.title = text;
    setText(this.figures, bar === null ? '' : figures(bar).join(' · '));
    this.figures.title = bar?.model ?? '';
    this.drawFill(bar?.context ?? null);
    this.drawButtons(bar, live);
    this.drawProblem(live);
    this.drawQuestions();
    this.tick();
    if (live && this.clock === undefined) {
      this.clock = setInterval(() => {
        this.tick();
      }, 1000);
    } else if (!live) {
      clearInterval(this.clock);
      this.clock = undefined;
    }
  }

  private tick(): void {
    const bar = this.run?.bar ?? this.shown;
    const seconds = bar === null ? null : elapsed(bar, this.run?.isLive === true);
    setText(this.time, seconds === null ? '' : duration(seconds));
  }

  private drawFill(context: number | null): void {
    this.fill.hidden = context === null;
    const percent = Math.round(100 * Math.min(1, context ?? 0));
    this.fillDone.style.width = `${percent}%`;
    this.fill.title = `${percent} % of the model's context`;
    this.fill.setAttribute('aria-valuenow', String(percent));
    this.fill.classList.toggle('codeact-mod-full', percent >= 80);
  }

  private drawButtons(bar: Bar | null, live: boolean): void {
    this.stopBlock.disabled = !live || (bar?.blocks.length ?? 0) === 0;
    this.stop.disabled = !live;
    this.steer.disabled = !live;
    this.follow.disabled = !live;
    this.follow.setAttribute('aria-pressed', String(live && this.run?.follow === true));
    if (!live && !this.steering.hidden) {
      this.steering.hidden = true;
      this.steer.setAttribute('aria-expanded', 'false');
    }
  }

  private drawProblem(live: boolean): void {
    const problem = this.runs.problem || (this.run?.problem ?? '');
    setText(this.problemText, problem);
    this.problem.hidden = problem === '';
    this.again.hidden = this.run === null || (!this.run.reachable && !live);
  }

  private drawQuestions(): void {
    const asked = this.run?.questions ?? new Map<string, never>();
    for (const [question, panel] of this.panels) {
      if (!asked.has(question)) {
        this.notices.get(question)?.dispose();
        this.notices.delete(question);
        const had = panel.node.contains(document.activeElement);
        panel.dispose();
        this.panels.delete(question);
        if (had) {
          (this.panels.values().next().value?.node ?? this.stop).focus();
        }
      }
    }
    for (const [key, question] of asked) {
      const { run } = this;
      if (!this.panels.has(key) && run !== null) {
        const decide = run.answer.bind(run, key);
        const panel = new QuestionPanel(question, decide, this.around.editors);
        this.panels.set(key, panel);
        this.addWidget(panel);
        if (document.activeElement === this.stop) {
          // Who has answered the one before by keyboard goes on so.
          panel.node.focus();
        }
        const asks = `The agent asks: ${question.title}`;
        this.say(asks);
        const go = (): void => {
          this.around.activate();
          this.goToQuestion();
        };
        this.notices.set(key, new Notice(panel.node, asks, go));
      }
    }
  }

  // What buttons do.

  private stopOne(): void {
    const { run } = this;
    const blocks = run?.bar?.blocks ?? [];
    if (run !== null && blocks.length === 1) {
      void run.stopBlock(blocks[0] as string);
    } else if (run !== null && blocks.length > 1) {
      this.openMenu(this.stopBlock, menu => {
        for (const block of blocks) {
          menu.addItem({ command: 'codeact:stop-block', args: { run: run.key, block } });
        }
      });
    }
  }

  private openMenu(from: HTMLElement, fill: (menu: Menu) => void): void {
    const menu = new Menu({ commands: this.around.commands });
    fill(menu);
    menu.aboutToClose.connect(() => {
      from.focus();
      setTimeout(() => {
        menu.dispose();
      });
    });
    const { left, bottom } = from.getBoundingClientRect();
    menu.open(left, bottom);
  }

  private readonly dot = element('span', 'codeact-Bar-dot');
  private readonly state = element('span', 'codeact-Bar-state');
  private readonly text = element('span', 'codeact-Bar-text');
  private readonly time = element('span', 'codeact-Bar-time');
  private readonly figures = element('span', 'codeact-Bar-count');
  private readonly fill = element('span', 'codeact-Bar-fill');
  private readonly fillDone = element('span', 'codeact-Bar-fillDone');
  private readonly said = element('div', 'codeact-Said');
  private readonly steering = element('div', 'codeact-Bar-steering');
  private readonly note = element('input', 'codeact-Bar-note');
  private readonly problem = element('div', 'codeact-Bar-problem');
  private readonly problemText = element('span', '');
  private readonly again = button('Try again', () => void this.run?.show());
  private readonly stopBlock = button(
    'Stop block',
    () => {
      this.stopOne();
    },
    'End a block that runs; the agent goes on'
  );
  private readonly stop = button('Stop', () => void this.run?.stop(), 'End the run. Your own cells go on');
  private readonly steer = button(
    'Steer…',
    () => {
      this.setSteering(this.steering.hidden !== false);
    },
    'Tell the agent something while it works'
  );
  private readonly follow = button(
    'Follow',
    () => this.run?.setFollow(!this.run.follow),
    'Keep the newest cell in sight'
  );
  private readonly fold = button(
    'Fold',
    () => {
      const cells = this.runs.cellsOf(this.key);
      this.folded = !this.folded;
      cells.fold(this.folded);
      setText(this.fold, this.folded ? 'Unfold' : 'Fold');
    },
    'Fold or unfold the cells of this run'
  );
  private readonly more = button(
    '⋯',
    () => {
      this.openMenu(this.more, menu => {
        for (const command of MENU) {
          menu.addItem(command === null ? { type: 'separator' } : { command, args: { run: this.key } });
        }
      });
    },
    'More'
  );

  private key = '';
  private shown: Bar | null = null;
  private run: Run | null = null;
  private folded = false;
  private clock: ReturnType<typeof setInterval> | undefined;
  private readonly notices = new Map<string, Notice>();
  private readonly panels = new Map<string, QuestionPanel>();
}
